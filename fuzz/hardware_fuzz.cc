// Hardware files: any input gives hardware that prints and reads back to itself, or an error with a
// message.

#include <cstdlib>
#include <string_view>

#include "config/cluster_file.h"

using namespace trireme;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Hardware> hardware = parse_hardware(text, "cluster.toml");
  if (!hardware.ok()) {
    if (hardware.error().message.empty()) std::abort();
    return 0;
  }
  const std::string printed = to_toml(*hardware);
  const Result<Hardware> again = parse_hardware(printed, "printed");
  if (!again.ok() || to_toml(*again) != printed) std::abort();
  return 0;
}
