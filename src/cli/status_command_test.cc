#include "cli/status_command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/job_status.h"
#include "agent/process_stat.h"
#include "base/file.h"
#include "base/sealed_json.h"
#include "device/host.h"

namespace trireme {
namespace {

// One changed byte of agent.json could name another process, which `stop` would then signal.
TEST(StatusCommand, EveryChangedByteOfTheStatusIsNoticedAndTheFileNamed) {
  const std::string folder = testing::TempDir() + "status" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/" + kStatusFile;
  JobStatus status{.agent_pid = 1, .agent_start = 7, .host = "a", .state = "running"};
  status.hosts = {{.name = "a", .state = "in use", .slots = 1}};
  status.ranks = {{.host = "a", .pid = 1, .state = "training"}};
  write_status(path, text_of(status));
  const std::string text = read_text_file(path).value();
  std::ostringstream out, err;
  CommandIo io{.out = out, .err = err};
  EXPECT_EQ(run_status({.run_dir = folder, .json = true}, io).value(), 0);
  EXPECT_EQ(out.str(), text);
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char mask : {'\x01', '\x20', '\x80'}) {
      std::string changed = text;
      changed[at] = static_cast<char>(text[at] ^ mask);
      { std::ofstream(path, std::ios::binary) << changed; }
      for (const auto& run : {run_status, run_stop}) {
        const Result<int> code = run({.run_dir = folder}, io);
        ASSERT_FALSE(code.ok()) << changed;
        EXPECT_EQ(code.error().kind, ErrorKind::Damaged);
        EXPECT_TRUE(code.error().message.starts_with(path)) << code.error().message;
      }
    }
  }
  std::filesystem::remove_all(folder);
}

TEST(StatusCommand, SaysHowManyStepsAreRepeatedIfCheckpointsLieInMemory) {
  const std::string folder = testing::TempDir() + "memory" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  JobStatus status{.host = "elsewhere", .state = "running"};
  const auto shown = [&] {
    write_status(folder + "/" + kStatusFile, text_of(status));
    std::ostringstream out, err;
    CommandIo io{.out = out, .err = err};
    EXPECT_EQ(run_status({.run_dir = folder}, io).value(), 0);
    return out.str();
  };
  EXPECT_EQ(shown().find("in memory"), std::string::npos);
  status.memory_step = 41;
  status.memory_redone = 7;
  EXPECT_NE(shown().find("in memory after step 41; if a rank or host is lost, at most 7 steps are "
                         "repeated\n"),
            std::string::npos);
  status.memory_redone = 1;
  EXPECT_NE(shown().find("at most 1 step is repeated\n"), std::string::npos);
  status.state = "ended";
  EXPECT_EQ(shown().find("in memory"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(StatusCommand, OfAnAgentOnAnotherHostIsItsLastReportAndStopNamesThatHost) {
  const std::string folder = testing::TempDir() + "elsewhere" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/" + kStatusFile;
  const JobStatus running{
      .agent_pid = 7, .agent_start = 7, .host = "elsewhere", .state = "running"};
  write_status(path, text_of(running));
  std::ostringstream out, err;
  CommandIo io{.out = out, .err = err};
  EXPECT_EQ(run_status({.run_dir = folder}, io).value(), 0);
  EXPECT_TRUE(out.str().starts_with("running when it last reported")) << out.str();
  EXPECT_NE(out.str().find("host elsewhere"), std::string::npos) << out.str();
  const Result<int> stopped = run_stop({.run_dir = folder}, io);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::Usage);
  EXPECT_NE(stopped.error().message.find("run this command there"), std::string::npos);
  for (const std::string text : {"{}", "{\"agent\":{\"pid\":\"1\"}}"}) {
    { std::ofstream(path) << seal_json(text); }
    EXPECT_EQ(run_status({.run_dir = folder}, io).error().kind, ErrorKind::Damaged) << text;
  }
  std::filesystem::remove_all(folder);
}

// The launcher starts another agent then, and passes the signal on to it.
TEST(StatusCommand, AJobRunsWithoutAnAgentAsLongAsItsLauncherDoes) {
  const std::string folder = testing::TempDir() + "launcher" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  JobStatus status{.agent_pid = ::getpid(),
                   .agent_start = 1,  // of a process that has ended
                   .launcher_pid = ::getpid(),
                   .launcher_start = stat_of_process(::getpid())->start,
                   .host = host_name(),
                   .state = "running"};
  write_status(folder + "/" + kStatusFile, text_of(status));
  std::ostringstream out, err;
  CommandIo io{.out = out, .err = err};
  EXPECT_EQ(run_status({.run_dir = folder}, io).value(), 0);
  EXPECT_TRUE(out.str().starts_with("running: epoch 1")) << out.str();
  sigset_t asked, before;
  sigemptyset(&asked);
  sigaddset(&asked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &asked, &before);
  EXPECT_EQ(run_stop({.run_dir = folder}, io).value(), 0);
  const timespec soon{.tv_sec = 5};
  EXPECT_EQ(::sigtimedwait(&asked, nullptr, &soon), SIGTERM);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);

  status.launcher_start = 1;
  write_status(folder + "/" + kStatusFile, text_of(status));
  EXPECT_FALSE(run_stop({.run_dir = folder}, io).ok());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace trireme
