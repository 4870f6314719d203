#include "base/result.h"

namespace trireme {

// A message that begins with the place already, as those of InputFile do, stays as it is.
Error with_context(const Error& error, const std::string& where) {
  if (error.message.starts_with(where + ": ")) return error;
  return {error.kind, where + ": " + error.message};
}

}  // namespace trireme
