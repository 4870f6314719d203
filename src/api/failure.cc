#include "trireme/failure.h"

#include "api/content.h"
#include "base/failure.h"

namespace trireme::api {
namespace {

Failure::Kind kind_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Usage:
      return Failure::Kind::Usage;
    case ErrorKind::Infeasible:
      return Failure::Kind::Infeasible;
    case ErrorKind::Damaged:
      return Failure::Kind::Damaged;
    case ErrorKind::Runtime:
      return Failure::Kind::Runtime;
  }
  return Failure::Kind::Runtime;
}

}  // namespace

void fail(const trireme::Error& error) { throw Failure(kind_of(error.kind), error.message); }

void fail_with_current_exception() {
  try {
    throw;
  } catch (const std::exception& error) {
    fail(error_of(error));
  }
}

}  // namespace trireme::api
