"""Builds an OpenCL program with lines, says its own number when that is done, and waits until its input ends."""

import ctypes
import os
import sys

SOURCE = b"kernel void twice(global int *x) { int i = get_global_id(0); x[i] = x[i] * 2; }"

cl = ctypes.CDLL("libOpenCL.so.1")
for name in ("clCreateContext", "clCreateProgramWithSource"):
    getattr(cl, name).restype = ctypes.c_void_p
platform, device, status = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
platforms = (ctypes.c_void_p * 16)()
count = ctypes.c_uint()
cl.clGetPlatformIDs(16, platforms, ctypes.byref(count))
for each in platforms[: count.value]:
    if cl.clGetDeviceIDs(ctypes.c_void_p(each), ctypes.c_ulong(4), 1, ctypes.byref(device), None) == 0:
        break
context = ctypes.c_void_p(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(status)))
source = ctypes.c_char_p(SOURCE)
program = ctypes.c_void_p(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, ctypes.byref(status)))
print(cl.clBuildProgram(program, 1, ctypes.byref(device), b"-g", None, None), os.getpid(), flush=True)
sys.stdin.read()
