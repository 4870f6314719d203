#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "raft/packed_bytes.h"
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
    PackedWriter writer;
    for (const std::string& line : lines_) writer.long_text(line);
    return writer.take();
  }
  Status restore(std::string_view snapshot) override {
    std::vector<std::string> lines;
    PackedReader reader(snapshot);
    while (!reader.has_failed() && !reader.is_done()) lines.emplace_back(reader.long_text());
    if (reader.has_failed()) return damaged("this is no journal");
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
