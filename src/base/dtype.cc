#include "base/dtype.h"

namespace trireme {

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return "fp32";
    case DType::BF16:
      return "bf16";
    case DType::F16:
      return "fp16";
    case DType::F64:
      return "fp64";
    case DType::I64:
      return "int64";
    case DType::I32:
      return "int32";
    case DType::U32:
      return "uint32";
    case DType::U16:
      return "uint16";
    case DType::U8:
      return "uint8";
  }
  return "?";
}

}  // namespace trireme
