#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/foreign_job.h"
#include "jobs/import_job.h"
#include "jobs/key_pair.h"

namespace trireme {

// A setting of another trainer that would change the layout or the model in a way that we do not
// have.
struct ForeignRefusal {
  std::string_view pattern;   // the key, or with * at its ends a part of it
  std::string_view harmless;  // the value with which it says nothing; "" if there is none
  std::string_view why;       // "": the setting is harmless, whatever later rows say
  std::string_view remedy = "remove it";
};

// Takes the settings of a job apart into assignments of our keys and collects all problems.
class JobReader {
 public:
  // `known` names the settings of the trainer that change neither memory nor time, separated by
  // spaces; with * at its end, a name is the beginning of several.
  JobReader(const ImportRequest& request, KeyTable table, std::string_view known, ForeignJob job);

  const ImportRequest& request() const { return request_; }

  // Replaces numbers of [model] and [parallel] in the job by those of --set, as if the job had been
  // edited.
  void replace_overridden();

  // Reads the rows whose say is Same, Flag or NoFlag and whose key of ours begins with `section`.
  void rows(std::string_view section);

  // The value of a setting, or nullopt if it is absent. A value of another type is a problem.
  std::optional<int64_t> integer(std::string_view key);
  std::optional<std::string> word(std::string_view key);
  // An integer or another number.
  std::optional<double> real(std::string_view key);
  // Assigns the integer or other number of `theirs` to our key, which needs no row of the table.
  void number(std::string_view ours, std::string_view theirs);
  bool flag(std::string_view key);  // false if it is absent
  std::optional<NameLists> lists(std::string_view key);
  bool has(std::string_view key);

  // Assigns our key. `their_key` gives the place; "" if it follows from several settings.
  void assign(std::string_view key, TomlValue value, std::string_view their_key = "");
  // Assigns the layers of every stage of the pipeline, or notes that one before the last has none.
  void assign_stages(const std::vector<int64_t>& layers, std::string_view their_key);
  void note(std::string text) { imported_.notes.push_back(std::move(text)); }
  // The problem is a value that nobody could have meant.
  void wrong(std::string_view their_key, std::string_view why, std::string_view remedy);
  // The problem is a valid setting that we do not have.
  void refuse(std::string_view their_key, std::string_view why, std::string_view remedy);
  // Refuses each setting of the job that the list names.
  void refuse_all(std::span<const ForeignRefusal> refusals);
  // A setting without which the job has no meaning, unless RUN.toml has it.
  void need(std::string_view their_key);

  // Ends the reading. Settings that nobody took become `not_used` or `not_known`, unless one looks
  // like a setting that is read: a misspelt one would be priced with its default.
  Result<ImportedJob> finish();

 private:
  const ForeignSetting* take(std::string_view key) {
    asked_.emplace(key);
    return job_.take(key);
  }
  void sort_unused();
  std::string place(std::string_view their_key);
  // The value of a setting that must be a number of any type.
  std::optional<ForeignValue> numeric(std::string_view key);
  void read_row(const KeyPair& pair);

  const ImportRequest& request_;
  KeyTable table_;
  std::string_view known_;
  std::span<const ForeignRefusal> refusals_;
  std::set<std::string, std::less<>> asked_;  // keys that were looked for
  ForeignJob job_;
  ImportedJob imported_;
  std::vector<std::string> problems_;
  ErrorKind kind_ = ErrorKind::Infeasible;  // Usage as soon as a problem is one
};

}  // namespace trireme
