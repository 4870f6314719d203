#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "raft/encoding.h"
#include "raft/state_machine.h"

namespace trireme {

// Keeps every command as a line; answers are the number of lines.
class JournalMachine : public StateMachine {
 public:
  std::string apply(std::string_view command) override {
    if (!failing_.empty() && command == failing_)
      throw std::runtime_error("this machine is broken");
    lines_.emplace_back(command);
    return std::to_string(lines_.size());
  }
  std::string query(std::string_view) const override { return std::to_string(lines_.size()); }
  std::string snapshot() const override {
    std::string bytes;
    RecordEncoder encoder(bytes);
    for (const std::string& line : lines_) encoder.text(line);
    return bytes;
  }
  Status restore(std::string_view snapshot) override {
    std::vector<std::string> lines;
    RecordDecoder decoder(snapshot);
    while (decoder.is_ok() && !decoder.is_at_end()) lines.emplace_back(decoder.text());
    if (!decoder.is_ok()) return damaged("this is no journal");
    lines_ = std::move(lines);
    return Done{};
  }
  const std::vector<std::string>& lines() const { return lines_; }
  void fail_at(const std::string& command) { failing_ = command; }

 private:
  std::vector<std::string> lines_;
  std::string failing_;
};

}  // namespace trireme
