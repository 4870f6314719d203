#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trireme {

// What the actions of a rank's program are called, so that its agent, which knows no programs, can
// say in which action the rank hangs. It lies in memory that the agent reads at any time. All bytes
// are zero at first.
class ProgramPage {
 public:
  static constexpr size_t kMostActions = 8192;
  static constexpr size_t kMostBytes = size_t{1} << 19;

  // Shows the texts of all actions, in the order of the program. Actions for which there is no room
  // have no text.
  void show(std::span<const std::string> actions);
  // Returns the text of an action, or "" if it has none.
  std::string text_of(int64_t action) const;

 private:
  std::atomic<uint32_t> num_actions_;                     // written last; 0 while texts change
  std::array<std::atomic<uint32_t>, kMostActions> ends_;  // of the texts, which follow each other
  std::array<std::atomic<char>, kMostBytes> text_;
};

}  // namespace trireme
