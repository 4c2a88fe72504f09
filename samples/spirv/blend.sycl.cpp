// Helpers inlined into one another and twice on one line, for DPC++'s kernel compiler. It takes free functions with
// this attribute as kernels; without sycl.hpp the module is small.

#define INLINED [[clang::always_inline]] static inline

INLINED float scaled(float value, float factor) {
  return value * factor + 0.5f;
}

INLINED float blend(float left, float right) {
  float sum = scaled(left, 0.25f) + scaled(right, 0.75f);
  if (sum > 1.0f)
    sum = scaled(sum, 0.125f);
  return sum;
}

extern "C" [[__sycl_detail__::add_ir_attributes_function("sycl-nd-range-kernel", 1)]]
void mix(float *out, const float *in, int count) {
  for (int at = 0; at < count; ++at)
    out[at] = blend(in[at], out[at]);
}
