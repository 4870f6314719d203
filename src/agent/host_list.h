#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// A host that the user has named, with its slots for ranks.
struct NamedHost {
  std::string name;
  int slots = 0;  // 0: as many as the others
  std::string
      domain;  // its failure domain, such as a rack: hosts of one may fail together; "": none
};

// A usage error unless this is a name of a failure domain.
Status check_domain(const std::string& name);

// Reads "a,b:2,user@c": names with slots after a colon. An error says which entry is wrong.
Result<std::vector<NamedHost>> hosts_in(const std::string& list);
// Reads a file with one host in each line: HOST or HOST:SLOTS, then slots=SLOTS and domain=NAME if
// they are wanted. Empty lines and the rest of a line after # are skipped. An error names the file
// and the line.
Result<std::vector<NamedHost>> hosts_in_file(const std::string& path);

}  // namespace trireme
