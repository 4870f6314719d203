#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The functions of a program or library, read from the symbols in its file.
class Symbols {
 public:
  // Empty if the file cannot be read or is no ELF file of this machine.
  static Symbols of_file(const std::string& path);
  // The function at an address as the file counts them, demangled, with the distance from its
  // beginning: "trireme::Waiter::until()+0x1f"; "" if none is known.
  std::string name_at(uint64_t address) const;
  bool empty() const { return functions_.empty(); }

 private:
  struct Function {
    uint64_t begin = 0;
    uint64_t size = 0;
    std::string name;
  };
  std::vector<Function> functions_;  // by begin
};

// Where the code of a process lies, from its /proc/PID/maps, and what its functions are called. It
// can be made while the process lives and asked after its end.
class CodeMap {
 public:
  CodeMap() = default;
  explicit CodeMap(std::string_view maps);
  bool empty() const { return parts_.empty(); }
  // "trireme::Executor::run_step(...)+0x2a (trireme)", or the address if nothing is known. `files`
  // keeps the symbols of files that were read.
  std::string name_at(uint64_t address, std::map<std::string, Symbols>& files) const;

 private:
  struct Part {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t shift = 0;  // added to an address of the process, it is one of the file
    std::string path;
  };
  std::vector<Part> parts_;
};

}  // namespace trireme
