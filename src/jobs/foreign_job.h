#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trireme {

// A value in the file of another trainer. Lists are the modules of pipeline stages.
using NameLists = std::vector<std::vector<std::string>>;
using ForeignValue = std::variant<bool, int64_t, double, std::string, NameLists>;

struct ForeignSetting {
  std::string key;  // as the trainer spells it: "--num-layers", "parallelism.tp"
  ForeignValue value;
  std::string where;  // "job.sh:12"; "" in a job that we write
  bool is_used = false;
};

// The settings of another trainer's job. Exports fill it and then print it; imports parse a file
// into it and then take what they understand out of it.
class ForeignJob {
 public:
  void set(std::string key, ForeignValue value, std::string where = "");
  // Returns the setting that applies, which is the last one with this key, and marks all of them as
  // used; null if there is none. The pointer is valid until the next set().
  const ForeignSetting* take(std::string_view key);
  const std::vector<ForeignSetting>& settings() const { return settings_; }

 private:
  std::vector<ForeignSetting> settings_;
};

// Returns the value as TOML, JSON and (with true and false in capitals) Python write it.
std::string literal_text(const ForeignValue& value);
// Returns the value as a word of a command line.
std::string word_text(const ForeignValue& value);
// Returns the integer, number or string that the word is.
ForeignValue value_of_word(std::string_view word);

}  // namespace trireme
