#pragma once

#include <memory>
#include <string>
#include <vector>

namespace trireme::api {

// A run as RUN.toml describes it: read, layered and checked. Immutable; copies are cheap.
class Configuration {
 public:
  // TOML files, later wins, then overrides such as "model.layers=4". Model presets
  // (model.preset) are looked for near the files, in their models/ and ../models/.
  static Configuration from_files(const std::vector<std::string>& files,
                                  const std::vector<std::string>& overrides = {});
  // The same for a text.
  static Configuration from_toml(const std::string& toml,
                                 const std::vector<std::string>& overrides = {});

  // Every key with its value, as TOML.
  std::string to_toml() const;

  struct Content;  // of the library alone
  const Content& content() const { return *content_; }

 private:
  explicit Configuration(std::shared_ptr<const Content> content);

  std::shared_ptr<const Content> content_;  // shared by copies
};

}  // namespace trireme::api
