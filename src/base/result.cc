#include "base/result.h"

namespace trireme {

// A message that already begins with the place, as those of InputFile do, is not changed.
Error with_context(const Error& error, const std::string& where) {
  if (error.message.starts_with(where + ": ")) return error;
  return {error.kind, where + ": " + error.message};
}

}  // namespace trireme
