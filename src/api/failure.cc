#include "trireme/failure.h"

#include <new>

#include "api/content.h"
#include "base/check.h"
#include "base/file.h"

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
  } catch (const ContractError& error) {
    throw Failure(Failure::Kind::Runtime, std::string("a defect of Trireme: ") + error.what());
  } catch (const IoError& error) {
    throw Failure(Failure::Kind::Damaged, error.what());
  } catch (const std::bad_alloc&) {
    throw Failure(Failure::Kind::Runtime, "out of memory");
  } catch (const std::exception& error) {
    throw Failure(Failure::Kind::Runtime, error.what());
  }
}

}  // namespace trireme::api
