#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "store/store_fixture.h"

namespace trireme {

// What the files of a store may hold after faults: a file has the content that was acknowledged
// last, or one that was tried since. Its removal may have been tried, too.
class PossibleFiles {
 public:
  void put(const std::string& path, const std::string& content, bool is_acknowledged) {
    File& file = files_[path];
    if (is_acknowledged) file = {.contents = {}, .may_be_absent = false};
    file.contents.insert(content);
  }
  void remove(const std::string& path, bool is_acknowledged) {
    File& file = files_[path];
    if (is_acknowledged) file.contents.clear();
    file.may_be_absent = true;
  }
  void clear() { files_.clear(); }

  // A read that fails may do so because of a fault, but no wrong content is returned.
  void expect_no_wrong_content(Store& store, const std::string& path) {
    const Result<std::string> content = content_of(store, path);
    EXPECT_TRUE(!content.ok() || files_[path].contents.contains(*content)) << path;
  }
  // The store can be read now, so every file that must be there is.
  void expect_in(Store& store) const { EXPECT_EQ(problem_in(store), ""); }
  // Returns what is wrong with the files of a store that can be read, or "".
  std::string problem_in(Store& store) const {
    for (const auto& [path, file] : files_) {
      const Result<std::string> content = content_of(store, path);
      if (content.ok() && !file.contents.contains(*content)) return path + " has wrong bytes";
      const bool may_fail =
          file.may_be_absent && !content.ok() && content.error().kind == ErrorKind::Usage;
      if (!content.ok() && !may_fail) return path + ": " + content.error().message;
    }
    return "";
  }

 private:
  struct File {
    std::set<std::string> contents;
    bool may_be_absent = true;
  };
  std::map<std::string, File> files_;
};

}  // namespace trireme
