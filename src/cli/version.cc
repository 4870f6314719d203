#include "cli/version.h"

#include <fmt/format.h>

#include "device/isa.h"
#include "trireme_commit.h"

namespace trireme {

std::string_view version() { return TRIREME_VERSION; }
std::string_view build_commit() { return TRIREME_COMMIT; }

std::string version_text() {
  std::string isas;
  for (const Isa isa : supported_isas()) isas += fmt::format("{} ", name_of(isa));
#ifdef NDEBUG
  const char* const build = "release";
#else
  const char* const build = "debug";
#endif
  return fmt::format("trireme {} ({}, {} build, g++ {})\nkernels: {}reference\n", version(),
                     build_commit(), build, __VERSION__, isas);
}

}  // namespace trireme
