#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cli/command_fixture.h"
#include "cli/store_inputs.h"

namespace trireme {
namespace {

class StoreCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("trireme-store-cli-" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  // Every command names the folder of store files.
  CommandAnswer store(std::vector<std::string> args) const {
    args.insert(args.begin(), "store");
    args.insert(args.end(), {"--at", in("stores")});
    return answer_of(args);
  }
  CommandAnswer create(const std::string& name, const std::string& code, int num_dirs) const {
    std::string dirs;
    for (int dir = 0; dir < num_dirs; ++dir) {
      dirs.append(dirs.empty() ? "" : ",").append(in(name)).append(std::to_string(dir));
    }
    return store({"create", name, "--code", code, "--dirs", dirs});
  }

  std::filesystem::path folder_;
};

TEST_F(StoreCommandTest, PutsGetsListsAndRemoves) {
  ASSERT_EQ(create("demo", "2+1", 3).exit_code, 0);
  std::ofstream(in("text")) << "some text";
  ASSERT_EQ(store({"put", in("text"), "store://demo/a/text"}).exit_code, 0);
  EXPECT_NE(store({"ls", "store://demo"}).out.find("9  a/text"), std::string::npos);
  std::filesystem::remove_all(in("demo1"));
  ASSERT_EQ(store({"get", "store://demo/a/text", in("back")}).exit_code, 0);
  std::stringstream back;
  back << std::ifstream(in("back")).rdbuf();
  EXPECT_EQ(back.str(), "some text");
  const auto status = parse_json(store({"status", "demo", "--json"}).out);
  EXPECT_EQ(status.at("health"), "degraded");
  EXPECT_EQ(status.at("bytes_lost"), 0);
  std::filesystem::create_directories(in("demo1"));
  EXPECT_NE(store({"repair", "demo"}).out.find("1 chunks of"), std::string::npos);
  EXPECT_EQ(store({"scrub", "demo"}).exit_code, 0);
  EXPECT_NE(store({"status", "demo"}).out.find("healthy"), std::string::npos);
  EXPECT_EQ(store({"rm", "store://demo/a/text"}).exit_code, 0);
  EXPECT_EQ(store({"stat", "store://demo/a/text"}).exit_code, 2);
}

TEST_F(StoreCommandTest, FilesAreOpenedByNameAndSharedByTheirReaders) {
  ASSERT_EQ(create("demo", "2+1", 3).exit_code, 0);
  std::ofstream(in("text")) << "some text";
  ASSERT_EQ(store({"put", in("text"), "store://demo/a/text"}).exit_code, 0);
  const OpenInput open = store_inputs(in("stores"), "");
  const InputFile first = open("store://demo/a/text").value();
  EXPECT_EQ(first.bytes(), 9);
  EXPECT_TRUE(first.is_elsewhere());
  std::string word(4, ' ');
  const auto bytes = std::as_writable_bytes(std::span(word));
  ASSERT_TRUE(open("store://demo/a/text").value().read(5, bytes).ok());
  EXPECT_EQ(word, "text");
  const auto refuses = [&](const OpenInput& opens, const std::string& name, const char* what) {
    const Result<InputFile> refused = opens(name);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_NE(refused.error().message.find(what), std::string::npos) << refused.error().message;
  };
  refuses(open, "store://demo", "name a file of it");
  refuses(open, "store://demo/../x", "..");
  refuses(open, "store://demmo/a/text", "demo");
  refuses(open, "store://demo/a/test", "a/test");
  refuses(open, "http://demo/a/text", "store://NAME/PATH");
  refuses(store_inputs("", ""), "store://demo/a/text", "TRIREME_STORES");
}

TEST_F(StoreCommandTest, LinksInAFolderMustNotLeadOutOfIt) {
  ASSERT_EQ(create("demo", "2+1", 3).exit_code, 0);
  std::filesystem::create_directories(in("run/checkpoints"));
  std::ofstream(in("run/step")) << "42";
  std::ofstream(in("secret")) << "secret";
  std::filesystem::create_symlink("../step", in("run/checkpoints/newest"));
  EXPECT_EQ(store({"put", in("run"), "store://demo/run"}).exit_code, 0);
  EXPECT_NE(store({"ls", "store://demo"}).out.find("2  run/checkpoints/newest"), std::string::npos);
  for (const std::string target : {"../secret", "checkpoints", "nowhere"}) {
    std::filesystem::create_symlink(target, in("run/link"));
    const CommandAnswer refused = store({"put", in("run"), "store://demo/again"});
    EXPECT_EQ(refused.exit_code, 2) << target;
    EXPECT_NE(refused.err.find("run/link is a link"), std::string::npos) << refused.err;
    std::filesystem::remove(in("run/link"));
  }
  EXPECT_EQ(store({"ls", "store://demo/again"}).out, "");
}

TEST_F(StoreCommandTest, ADrainedServerIsTakenBack) {
  ASSERT_EQ(create("demo", "2+1", 4).exit_code, 0);
  std::ofstream(in("text")) << "some text";
  ASSERT_EQ(store({"drain", "s3", "demo"}).exit_code, 0);
  ASSERT_EQ(store({"drain", "s2", "demo"}).exit_code, 0);  // it holds nothing
  // Two servers cannot take three chunks; a scrub would not help.
  const CommandAnswer put = store({"put", in("text"), "store://demo/a"});
  EXPECT_EQ(put.exit_code, 4) << put.err;
  ASSERT_EQ(store({"drain", "--cancel", "s2", "demo"}).exit_code, 0);
  EXPECT_EQ(store({"put", in("text"), "store://demo/a"}).err, "");
  std::filesystem::remove_all(in("demo1"));
  const CommandAnswer refused = store({"drain", "s2", "demo"});
  EXPECT_EQ(refused.exit_code, 3) << refused.err;
  EXPECT_EQ(store({"drain", "--cancel", "s2", "demo"}).exit_code, 2);  // it is active
}

TEST_F(StoreCommandTest, APutThatLacksAServerSaysWhichOneIsNotThere) {
  ASSERT_EQ(create("demo", "2+2", 4).exit_code, 0);
  std::ofstream(in("text")) << "some text";
  ASSERT_EQ(store({"drain", "s3", "demo"}).exit_code, 0);
  const CommandAnswer put = store({"put", in("text"), "store://demo/a"});
  EXPECT_EQ(put.exit_code, 0) << put.err;
  EXPECT_NE(put.err.find("3 servers take chunks"), std::string::npos) << put.err;
  EXPECT_NE(put.err.find("s3 is drained"), std::string::npos) << put.err;
}

TEST_F(StoreCommandTest, StatusNamesADamagedCopyOfTheMetadataAndScrubMendsIt) {
  ASSERT_EQ(create("demo", "2+1", 3).exit_code, 0);
  const std::string copy = in("demo1") + "/metadata.log";
  std::filesystem::remove(copy);
  const CommandAnswer status = store({"status", "demo"});
  EXPECT_NE(status.out.find("degraded"), std::string::npos) << status.out;
  EXPECT_NE(status.out.find("metadata  " + copy), std::string::npos) << status.out;
  const auto json = parse_json(store({"status", "demo", "--json"}).out);
  EXPECT_NE(json.at("servers").at(1).at("metadata_problem"), "");
  EXPECT_NE(store({"scrub", "demo"}).out.find("1 copies of the metadata"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(copy));
  EXPECT_NE(store({"status", "demo"}).out.find("healthy"), std::string::npos);
}

TEST_F(StoreCommandTest, WrongInputsSayWhatToDo) {
  ASSERT_EQ(create("demo", "2+1", 3).exit_code, 0);
  std::ofstream(in("text")) << "some text";
  const auto expect = [](const CommandAnswer& answer, int code, const std::string& text) {
    EXPECT_EQ(answer.exit_code, code) << answer.err;
    EXPECT_NE(answer.err.find(text), std::string::npos) << answer.err;
  };
  expect(create("other", "5-2", 3), 2, "there are K+M");
  expect(create("other", "4+2", 5), 2, "needs at least 6 folders");
  expect(create("demo", "2+1", 3), 2, "a store of this name exists");
  expect(create("../demo", "2+1", 3), 2, "is no name of a store");
  expect(store({"put", in("text"), "store://demo/../x"}), 2, "has . or ..");
  expect(store({"put", in("none"), "store://demo/x"}), 2, "no such file");
  expect(store({"get", "store://absent/x", in("y")}), 2, "no store is called absent");
  expect(store({"get", "store://demo/x", in("y")}), 2, "there is no such file");
  expect(store({"drain", "s7", "demo"}), 2, "s0, s1 or s2");
  expect(store({"replace-metadata", "s0", "s1", "demo"}), 2, "its metadata in every folder");
  std::filesystem::remove_all(in("demo0"));
  std::filesystem::remove_all(in("demo2"));
  expect(store({"get", "store://demo/x", in("y")}), 4, "s0 (");
}

}  // namespace
}  // namespace trireme
