// The element types that NCCL can reduce, as C++ types and as numbers of ncclDataType_t, without
// NCCL's header. CUDA's half, bfloat16 and 8-bit floats are declared here, not included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

struct __half;         // cuda_fp16.h
struct __nv_bfloat16;  // cuda_bf16.h
struct __nv_fp8_e4m3;  // cuda_fp8.h; reductions need compute capability 9.0 or newer
struct __nv_fp8_e5m2;

namespace ddprun::worker {

struct element {
  int number;        // ncclDataType_t
  std::size_t size;  // bytes
  const char* name;  // as in nccl-tests and PyTorch
};

// Returns nothing for a type that NCCL does not support.
template <typename T>
constexpr auto element_of() {
  using plain = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<plain, float>) {
    return element{7, 4, "float32"};
  } else if constexpr (std::is_same_v<plain, double>) {
    return element{8, 8, "float64"};
  } else if constexpr (std::is_same_v<plain, __half>) {
    return element{6, 2, "float16"};
  } else if constexpr (std::is_same_v<plain, __nv_bfloat16>) {
    return element{9, 2, "bfloat16"};
  } else if constexpr (std::is_same_v<plain, __nv_fp8_e4m3>) {
    return element{10, 1, "float8_e4m3"};
  } else if constexpr (std::is_same_v<plain, __nv_fp8_e5m2>) {
    return element{11, 1, "float8_e5m2"};
  } else if constexpr (std::is_integral_v<plain> && !std::is_same_v<plain, bool>) {
    constexpr bool has_sign = std::is_signed_v<plain>;
    if constexpr (sizeof(plain) == 1) {
      return has_sign ? element{0, 1, "int8"} : element{1, 1, "uint8"};
    } else if constexpr (sizeof(plain) == 4) {
      return has_sign ? element{2, 4, "int32"} : element{3, 4, "uint32"};
    } else if constexpr (sizeof(plain) == 8) {
      return has_sign ? element{4, 8, "int64"} : element{5, 8, "uint64"};
    }
  }
}

// float, double, the integers of 8, 32 and 64 bits, and CUDA's __half, __nv_bfloat16, __nv_fp8_e4m3
// and __nv_fp8_e5m2.
template <typename T>
concept reducible = std::is_same_v<decltype(element_of<T>()), element>;

}  // namespace ddprun::worker
