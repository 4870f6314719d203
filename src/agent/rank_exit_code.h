#pragma once

namespace trireme {

// Exit codes of a rank that its agent and the commands must tell apart (docs/cli.md).
inline constexpr int kUsageExitCode = 2;      // the command or its configuration is wrong
inline constexpr int kDamagedExitCode = 4;    // a file is damaged, such as a token file
inline constexpr int kFailedExitCode = 5;     // a rank, device, link or the system has failed
inline constexpr int kStoppedExitCode = 130;  // stopped by a signal or run.stop_after, and saved

}  // namespace trireme
