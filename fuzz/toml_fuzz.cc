// RUN.toml and --set: any input gives a configuration that prints and reads back to itself, or an
// error with a message.

#include <cstdlib>
#include <string_view>

#include "config/config_load.h"
#include "schema/run_config_text.h"

using namespace trireme;

namespace {

void check(const Result<LoadedConfig>& loaded) {
  if (!loaded.ok()) {
    if (loaded.error().message.empty()) std::abort();
    return;
  }
  const std::string text = to_toml(loaded.value().config);
  const Result<LoadedConfig> again = load_config_text(text, "resolved", {});
  if (!again.ok() || to_toml(again.value().config) != text) std::abort();
  if (to_json(loaded.value().config).empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(load_config_text(text, "run.toml", {}));
  check(load_config({.overrides = {std::string(text)}}));
  return 0;
}
