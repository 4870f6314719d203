#include "base/result.h"

namespace trireme {

Error with_context(const Error& error, const std::string& where) {
  return {error.kind, where + ": " + error.message};
}

}  // namespace trireme
