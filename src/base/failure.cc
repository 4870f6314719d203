#include "base/failure.h"

#include <new>
#include <string>

namespace trireme {

Error error_of(const std::exception& exception) {
  const std::string what = exception.what();
  if (const auto* failure = dynamic_cast<const Failure*>(&exception)) return failure->error();
  if (dynamic_cast<const IoError*>(&exception) != nullptr) return {ErrorKind::Damaged, what};
  if (dynamic_cast<const ContractError*>(&exception) != nullptr) {
    return {ErrorKind::Runtime, "a defect of Trireme: " + what};
  }
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
    return {ErrorKind::Runtime,
            "out of memory; lower memory.limit_bytes or the batch size, or end other programs"};
  }
  return {ErrorKind::Runtime, what};
}

}  // namespace trireme
