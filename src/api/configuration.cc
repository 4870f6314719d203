#include "trireme/configuration.h"

#include "api/content.h"
#include "config/config_load.h"
#include "schema/run_config_text.h"

namespace trireme::api {

Configuration::Configuration(std::shared_ptr<const Content> content)
    : content_(std::move(content)) {}

Configuration Configuration::from_files(const std::vector<std::string>& files,
                                        const std::vector<std::string>& overrides) {
  return guarded([&] {
    LoadedConfig loaded = value_or_fail(load_config({.files = files, .overrides = overrides}));
    return Configuration(std::make_shared<Content>(Content{loaded.config}));
  });
}

Configuration Configuration::from_toml(const std::string& toml,
                                       const std::vector<std::string>& overrides) {
  return guarded([&] {
    LoadedConfig loaded = value_or_fail(load_config_text(toml, "configuration", {}, overrides));
    return Configuration(std::make_shared<Content>(Content{loaded.config}));
  });
}

std::string Configuration::to_toml() const { return trireme::to_toml(content_->config); }

}  // namespace trireme::api
