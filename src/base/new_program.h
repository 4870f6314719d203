#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

// The words and the environment of the program that a child process becomes after fork(). They are
// made before it: another thread may hold a lock at that moment, such as that of the allocator, and
// in the child nobody ever releases it. So a child may call only what signal-safety(7) allows.
class NewProgram {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  // The environment is that of this process; `variables` are added or replace others.
  explicit NewProgram(std::vector<std::string> words, const Variables& variables = {});
  NewProgram(const NewProgram&) = delete;
  NewProgram& operator=(const NewProgram&) = delete;

  // Replaces this process by the program `path`, which is looked up in PATH if it has no '/'.
  // Returns only after an error, which is in errno.
  void become(const char* path) const;
  // By the program that the first word names.
  void become() const { become(words_.front().c_str()); }

 private:
  std::vector<std::string> words_;
  std::vector<std::string> environment_;  // "NAME=value"
  std::vector<char*> word_pointers_;      // ended by null, like the following ones
  std::vector<char*> environment_pointers_;
};

}  // namespace trireme
