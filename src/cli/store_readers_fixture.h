#pragma once

#include <string>
#include <vector>

#include "cli/command_fixture.h"
#include "cli/store_inputs.h"

namespace trireme {

// A store in three folders, of which one may be lost, and commands that read and write its files.
class StoreReaders : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    ok({"store", "create", "demo", "--code", "2+1", "--dirs", "d0,d1,d2", "--at", "stores"});
  }
  // As trireme runs it, with the store files in the folder stores.
  static CommandAnswer run(const std::vector<std::string>& args) {
    std::ostringstream out, err;
    CommandIo io{.out = out,
                 .err = err,
                 .model_folders = {(trireme::kRoot / "models").string()},
                 .stores_folder = "stores",
                 .open_input = store_inputs("stores", "")};
    const int code = run_app(args, {}, io, 80);
    return {code, out.str(), err.str()};
  }
  static std::string ok(const std::vector<std::string>& args) {
    const CommandAnswer answer = run(args);
    EXPECT_EQ(answer.exit_code, 0) << answer.err;
    return answer.out;
  }
  static CommandAnswer refused(const std::vector<std::string>& args) {
    CommandAnswer answer = run(args);
    EXPECT_EQ(answer.exit_code, 2) << args[1] << ": " << answer.out;
    return answer;
  }
  static std::string bytes_of(const std::filesystem::path& path) {
    std::stringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    return bytes.str();
  }
  // Fetches a file or a folder of the store under a new name, and returns this name.
  static std::string fetched(const std::string& path) {
    static int number = 0;
    const std::string to = "fetched" + std::to_string(number++);
    ok({"store", "get", "store://demo/" + path, to});
    return to;
  }
  static void put(const std::string& from, const std::string& path) {
    ok({"store", "put", from, "store://demo/" + path});
  }
};

}  // namespace trireme
