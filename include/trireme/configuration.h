#pragma once

#include <memory>
#include <string>
#include <vector>

namespace trireme::api {

// The configuration of a run, as RUN.toml describes it, read and checked. Objects are immutable,
// and copying one is cheap.
class Configuration {
 public:
  // Reads TOML files. Later files override earlier ones, and `overrides` such as "model.layers=4"
  // override all files. A model preset (model.preset) is searched in the folders models/ and
  // ../models/ beside the files.
  static Configuration from_files(const std::vector<std::string>& files,
                                  const std::vector<std::string>& overrides = {});
  // Reads a TOML text instead of files.
  static Configuration from_toml(const std::string& toml,
                                 const std::vector<std::string>& overrides = {});

  // Returns every key with its value, as TOML.
  std::string to_toml() const;

  struct Content;  // internal to the library
  const Content& content() const { return *content_; }

 private:
  explicit Configuration(std::shared_ptr<const Content> content);

  std::shared_ptr<const Content> content_;  // shared by all copies of this object
};

}  // namespace trireme::api
