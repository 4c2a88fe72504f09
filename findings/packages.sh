# Read by the other scripts: packages in a temporary folder, which goes with them, and how they compare what they saw.
set -eu
here=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

wheels() { # NAME==VERSION...: from PyPI, into an environment of their own
  python3 -m venv env
  env/bin/pip install -qq --disable-pip-version-check "$@"
  echo "packages: $*"
}

cuda() { # the programs of CUDA 13.5, whose names then need no folder
  wheels nvidia-cuda-nvcc==13.5.37 nvidia-nvvm==13.5.37 nvidia-cuda-crt==13.5.37 nvidia-cuda-runtime==13.5.37 \
    nvidia-cuda-cccl==13.3.5.0.6 nvidia-cuda-nvdisasm==13.5.37
  PATH=$(echo "$work"/env/lib/python3*/site-packages/nvidia/cu13/bin):$PATH
}

debs() { # NAME=VERSION...: from Debian 12, unpacked and not installed
  apt-get -qq -o APT::Sandbox::User=root download "$@"
  for package in *.deb; do dpkg-deb -x "$package" root; done
  echo "packages: $*"
  PATH=$work/root/usr/bin:$PATH
  export LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu:$work/root/usr/lib/llvm-14/lib"
}

llvm14="libllvm14=1:14.0.6-12 libedit2=3.1-20221030-2 libz3-4=4.8.12-3.1 libbsd0=0.11.7-2 libmd0=1.0.4-2 libxml2 libicu72"
clang14="clang-14=1:14.0.6-12 libclang-cpp14=1:14.0.6-12 libclang-common-14-dev=1:14.0.6-12 $llvm14"
elfutils="elfutils=0.188-2.1 libelf1=0.188-2.1 libdw1=0.188-2.1 libasm1=0.188-2.1"

seen() { # WHAT WAS AS-EVER: shows the second; the script fails where it is not the third
  printf '%s:\n%s\n' "$1" "$2" | sed '2,$s/^/  /'
  [ "$2" = "$3" ] || { printf 'This is new. Before it was:\n%s\n' "$3" | sed '2,$s/^/  /'; exit 1; }
}
