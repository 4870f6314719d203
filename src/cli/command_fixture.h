#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/repository.h"
#include "compile/stage_cost.h"
#include "schema/hardware.h"

namespace trireme {

// What a command wrote to standard output and standard error, and its exit code.
struct CommandAnswer {
  int exit_code = 0;
  std::string out, err;
};

// Runs a command in this process, with a terminal of 80 columns.
inline CommandAnswer answer_of(const std::vector<std::string>& args, const Launch& launch = {}) {
  std::ostringstream out, err;
  CommandIo io{
      .out = out, .err = err, .model_folders = {(kRoot / "models").string()}, .launch = launch};
  const int code = run_app(args, {}, io, 80);
  return {code, out.str(), err.str()};
}

// Base of tests of commands. Each test runs in a new folder with tiny.toml, text.txt and the token
// files of this text in data/.
class CommandTest : public testing::Test {
 protected:
  void SetUp() override {
    before_ = std::filesystem::current_path();
    root_ = std::filesystem::absolute(kRoot);  // it may be relative
    folder_ = std::filesystem::temp_directory_path() / ("trireme-cli-" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::filesystem::current_path(folder_);
    write_tiny_run();
    {
      std::ofstream text("text.txt");
      for (int line = 0; line < 400; ++line) text << "Once there was line " << line << ".\n";
    }
    succeed({"data", "prepare", "text.txt", "--tokenizer", "byte", "--out", "data"});
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }

  static std::string succeed(const std::vector<std::string>& args) {
    const CommandAnswer answer = answer_of(args);
    EXPECT_EQ(answer.exit_code, 0) << answer.err;
    return answer.out;
  }

  // The run has a hardware file, because measuring the kernels takes longer than its steps.
  void write_tiny_run() const {
    std::ofstream("machine.toml") << to_toml(nominal_hardware());
    std::ifstream from(root_ / "configs" / "tiny-gpt2.toml");
    std::ofstream to("tiny.toml");
    int num_added = 0;
    for (std::string line; std::getline(from, line);) {
      to << line << "\n";
      if (line != "[run]") continue;
      to << "hardware = \"machine.toml\"\n";
      ++num_added;
    }
    ASSERT_EQ(num_added, 1);
  }

  std::filesystem::path folder_, before_, root_;
};

}  // namespace trireme
