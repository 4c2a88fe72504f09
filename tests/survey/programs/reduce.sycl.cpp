// A template that two kernels instantiate, calls that are inlined three deep, and a loop, for DPC++'s kernel compiler.

#define KERNEL extern "C" [[__sycl_detail__::add_ir_attributes_function("sycl-nd-range-kernel", 1)]]

template <typename T> [[clang::always_inline]] static inline T clamped(T value, T low, T high) {
  if (value < low)
    return low;
  return value > high ? high : value;
}

[[clang::always_inline]] static inline float weighed(float value, float weight) {
  return clamped(value * weight, -1.0f, 1.0f);
}

[[clang::always_inline]] static inline float added(const float *in, int count, float weight) {
  float sum = 0;
  for (int at = 0; at < count; ++at)
    sum += weighed(in[at], weight);
  return sum;
}

KERNEL void sums(float *out, const float *in, int count) {
  out[0] = added(in, count, 0.5f);
  out[1] = added(in, count, 2.0f);
}

KERNEL void limits(int *values, int count) {
  for (int at = 0; at < count; ++at)
    values[at] = clamped(values[at], 0, 255);
}
