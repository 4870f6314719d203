// `train --out store://NAME/PATH`.
#include "cli/stored_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "cli/command_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class StoredRunTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    const CommandAnswer made =
        in_stores({"store", "create", "demo", "--code", "2+1", "--dirs", "d0,d1,d2,d3"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  CommandAnswer in_stores(const std::vector<std::string>& args) const {
    std::ostringstream out, err;
    CommandIo io{.out = out,
                 .err = err,
                 .model_folders = {(root_ / "models").string()},
                 .stores_folder = (folder_ / "stores").string()};
    const int code = run_app(args, {}, io, 80);
    return {code, out.str(), err.str()};
  }
  CommandAnswer train(const std::string& out, std::vector<std::string> more) const {
    std::vector<std::string> args = {"train", "tiny.toml", "--out", out};
    for (const char* set : {"run.steps=6", "run.threads_per_rank=1", "run.reproducible=layout",
                            "checkpoint.every=2", "checkpoint.keep=2", "model.layers=1"}) {
      args.insert(args.end(), {"--set", set});
    }
    args.insert(args.end(), more.begin(), more.end());
    return in_stores(args);
  }
  static nlohmann::json summary_of(const std::string& folder) {
    return parse_json(*read_text_file(folder + "/summary.json"));
  }
};

// The disk of the run is lost, and one of the store. The run goes on from the copy, and ends with
// the bits of a run that lost nothing.
TEST_F(StoredRunTest, GoesOnAfterItsDiskIsLost) {
  ASSERT_EQ(train("whole", {}).exit_code, 0);
  const CommandAnswer first = train("store://demo/a", {"--set", "run.stop_after=4"});
  ASSERT_EQ(first.exit_code, 130) << first.err;
  EXPECT_NE(first.err.find("copy       store://demo/a"), std::string::npos) << first.err;

  const CommandAnswer taken = train("store://demo/a", {});
  EXPECT_EQ(taken.exit_code, 2);
  EXPECT_NE(taken.err.find("--resume auto"), std::string::npos) << taken.err;

  fs::remove_all("runs/demo/a");
  fs::remove_all("d1");
  const CommandAnswer second = train("store://demo/a", {"--resume", "auto"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_NE(second.err.find("of step 4"), std::string::npos) << second.err;
  EXPECT_EQ(summary_of("runs/demo/a").at("final_loss"), summary_of("whole").at("final_loss"));

  // The copy has the same checkpoints, and the reports.
  const CommandAnswer listed = in_stores({"store", "ls", "store://demo/a"});
  for (const char* name : {"a/report.html", "a/metrics.jsonl"}) {
    EXPECT_NE(listed.out.find(name), std::string::npos) << name << "\n" << listed.out;
  }
  for (int step = 1; step <= 6; ++step) {
    const std::string name = "checkpoints/step-00000" + std::to_string(step);
    const bool is_there = listed.out.find(name + "/index.json") != std::string::npos;
    EXPECT_EQ(is_there, fs::exists("runs/demo/a/" + name)) << name << "\n" << listed.out;
  }
}

// The store is on a disk whose calls never return. The run ends all the same and says so.
TEST_F(StoredRunTest, ADiskThatNeverReturnsDoesNotHoldUpTheEnd) {
  const auto released = std::make_shared<std::promise<void>>();
  const auto never = [done = std::shared_future<void>(
                          released->get_future())]() -> Result<std::unique_ptr<Store>> {
    done.wait();
    return usage("the disk is back");
  };
  std::vector<std::string> told;
  const auto tell = [&](const std::string& text) { told.push_back(text); };
  {
    StoredRun stored(RunCopy("run", "a"), never, tell, [] { return 0.1; });
    const Status finished = stored.finish();
    ASSERT_FALSE(finished.ok());
    EXPECT_NE(finished.error().message.find("does not answer"), std::string::npos);
  }
  EXPECT_TRUE(told.empty());
  {
    StoredRun stored(RunCopy("run", "a"), never, tell, [] { return 0.1; });
    stored.on_checkpoint({});
  }
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("did not end in time"), std::string::npos);
  released->set_value();
  // A failure is told, and the last one is returned.
  StoredRun stored(RunCopy("run", "a"), never, tell, [] { return 60.0; });
  EXPECT_EQ(stored.finish().error().message, "the disk is back");
}

TEST(UsualDeadline, GrowsWithTheFilesOfARunUpToADay) {
  const fs::path folder = fs::path(testing::TempDir()) / fmt::format("deadline-{}", ::getpid());
  EXPECT_EQ(usual_deadline_s(folder.string()), 600.0);
  fs::create_directories(folder);
  std::ofstream(folder / "file") << "bytes";
  fs::create_symlink("nowhere", folder / "dangling");
  fs::resize_file(folder / "file", uintmax_t(1'000'000'000));
  EXPECT_DOUBLE_EQ(usual_deadline_s(folder.string()), 700.0);
  fs::resize_file(folder / "file", uintmax_t(1) << 40);
  EXPECT_EQ(usual_deadline_s(folder.string()), 86'400.0);
  fs::remove_all(folder);
}

TEST_F(StoredRunTest, WrongNamesAreRefusedBeforeAnythingIsWritten) {
  const auto refused = [&](const std::string& out, const std::string& why) {
    const CommandAnswer answer = train(out, {});
    EXPECT_EQ(answer.exit_code, 2) << out;
    EXPECT_NE(answer.err.find(why), std::string::npos) << answer.err;
    EXPECT_FALSE(fs::exists("runs"));
  };
  refused("store://demo", "add the name that the run has in it");
  refused("store://nobody/a", "nobody");
  refused("store://demo/../a", "..");
  const CommandAnswer sweep = in_stores({"sweep", "tiny.toml", "--over", "optim.lr=1e-3,1e-2",
                                         "--set", "checkpoint.store=store://demo/a"});
  EXPECT_EQ(sweep.exit_code, 2);
  EXPECT_NE(sweep.err.find("checkpoint.store"), std::string::npos) << sweep.err;
}

}  // namespace
}  // namespace trireme
