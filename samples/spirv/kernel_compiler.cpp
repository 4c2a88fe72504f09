// Compiles a file with SYCL kernels by DPC++'s kernel_compiler extension, on the first device; the environment variable
// SYCL_DUMP_IMAGES=1 leaves the SPIR-V module behind. Usage: kernel_compiler FILE OPTION...
#include <sycl/sycl.hpp>

#include <fstream>
#include <iostream>
#include <sstream>

namespace syclex = sycl::ext::oneapi::experimental;

int main(int argc, char **argv) {
  std::ostringstream text;
  text << std::ifstream(argv[1]).rdbuf();
  std::vector<std::string> options(argv + 2, argv + argc);
  std::string log;
  sycl::queue queue;
  auto source = syclex::create_kernel_bundle_from_source(queue.get_context(), syclex::source_language::sycl, text.str());
  syclex::build(source, syclex::properties{syclex::build_options{options}, syclex::save_log{&log}});
  std::cout << log;
}
