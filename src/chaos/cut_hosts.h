#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// Hosts on this machine whose network can be cut: network namespaces that a bridge joins. It needs
// root and the program `ip`. With this object they are removed, and all their processes are killed.
class CutHosts {
 public:
  // Writes the file `shell`, a command in place of ssh.
  static Result<CutHosts> make(int count, const std::string& shell);
  CutHosts(CutHosts&& other) noexcept;
  CutHosts& operator=(CutHosts&&) = delete;
  ~CutHosts();

  const std::vector<std::string>& names() const { return names_; }
  const std::string& gateway() const { return gateway_; }  // address of this process
  bool cut(const std::string& host) const;
  bool join(const std::string& host) const;

 private:
  CutHosts() = default;
  Status add(int number);

  std::string bridge_;
  std::string network_;  // "10.1.2."
  std::string gateway_;
  std::vector<std::string> names_;
};

}  // namespace trireme
