#include "checkpoint/scrub.h"

#include <gtest/gtest.h>

#include <map>

#include "checkpoint/hosts_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class ScrubTest : public HostsTest {
 protected:
  // The folders in which the hosts keep their checkpoints.
  std::vector<std::string> hosts() const {
    std::vector<std::string> folders;
    for (size_t host = 0; host < record_.hosts.size(); ++host) {
      folders.push_back(fs::path(folder(int(host))).parent_path());
    }
    return folders;
  }
  std::vector<std::string> files_of(int host) const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder(host))) files.push_back(entry.path());
    return files;
  }
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(root())) {
      if (entry.is_regular_file()) all[entry.path()] = bytes_in(entry.path());
    }
    return all;
  }
  std::vector<ScrubbedFolder> scrubbed(bool repairs = true) const {
    return scrub(hosts(), {.repairs = repairs}).value();
  }
  static size_t num_damaged(const std::vector<ScrubbedFolder>& folders) {
    return size_t(std::count_if(folders.begin(), folders.end(),
                                [](const ScrubbedFolder& one) { return !one.damage.empty(); }));
  }
  static size_t num_lost(const std::vector<ScrubbedFolder>& folders) {
    return size_t(std::count_if(folders.begin(), folders.end(),
                                [](const ScrubbedFolder& one) { return !one.lost.empty(); }));
  }
};

TEST_F(ScrubTest, IntactHostsHaveNothingToRepair) {
  for (const auto& [k, m] : {std::pair{1, 1}, {2, 1}, {4, 2}, {2, 0}}) {
    save(k + m, k, m);
    const auto before = contents();
    const std::vector<ScrubbedFolder> found = scrubbed();
    ASSERT_EQ(found.size(), size_t(k + m));
    EXPECT_EQ(num_damaged(found) + num_lost(found), 0u);
    EXPECT_EQ(contents(), before);
  }
}

// Shards, parity, index and record: after a repair, every file has the bytes that it had.
TEST_F(ScrubTest, EveryFlippedBitOfEveryFileOfAHostIsFoundAndRepaired) {
  save(3, 2, 1);
  const auto before = contents();
  int num_flips = 0;
  for (const std::string& path : files_of(1)) {
    const std::string& original = before.at(path);
    const size_t stride = std::max<size_t>(1, original.size() / 20);
    for (size_t at = 0; at < original.size(); at += stride) {
      std::string bytes = original;
      bytes[at] = char(bytes[at] ^ (1 << (num_flips++ % 8)));
      write_bytes(path, bytes);
      const std::vector<ScrubbedFolder> found = scrubbed();
      ASSERT_EQ(num_damaged(found), 1u) << path << " byte " << at;
      ASSERT_EQ(num_lost(found), 0u) << path << " byte " << at << found[1].lost.front();
      ASSERT_EQ(found[1].repaired, std::vector<std::string>{fs::path(path).filename()});
      ASSERT_TRUE(contents() == before) << path << " byte " << at;
    }
  }
  EXPECT_GT(num_flips, 100);
}

TEST_F(ScrubTest, AllFilesOfMHostsAreRepairedAndThoseOfMoreAreNamed) {
  save(6, 4, 2);
  const auto before = contents();
  const auto damage_host = [&](int host) {
    for (const std::string& path : files_of(host)) {
      const std::string name = fs::path(path).filename();
      if (name == kHostsFile || name == "index.json") continue;
      write_bytes(path, before.at(path).substr(1));
    }
  };
  damage_host(2);
  damage_host(5);
  EXPECT_EQ(num_lost(scrubbed()), 0u);
  EXPECT_TRUE(contents() == before);
  for (const int host : {1, 2, 5}) damage_host(host);
  const auto damaged = contents();
  const std::vector<ScrubbedFolder> found = scrubbed();
  EXPECT_EQ(num_damaged(found), 3u);
  EXPECT_EQ(num_lost(found), 3u);
  EXPECT_NE(found[1].lost.front().find("at most 2 may lack them"), std::string::npos)
      << found[1].lost.front();
  EXPECT_TRUE(contents() == damaged) << "nothing is written that is not checked";
}

// Each group is repaired although another has lost too much.
TEST_F(ScrubTest, GroupsAreRepairedByThemselves) {
  save(4, 1, 1);
  const auto before = contents();
  const std::vector<int> doomed = record_.groups()[0].hosts, healed = record_.groups()[1].hosts;
  for (const int host : {doomed[0], doomed[1], healed[0]}) {
    for (const std::string& path : files_of(host)) {
      const std::string name = fs::path(path).filename();
      if (name.starts_with("shard") || name.starts_with("parity")) write_bytes(path, "");
    }
  }
  const std::vector<ScrubbedFolder> found = scrubbed();
  EXPECT_EQ(num_lost(found), 2u);
  for (const std::string& path : files_of(healed[0])) EXPECT_EQ(bytes_in(path), before.at(path));
}

TEST_F(ScrubTest, WithoutRepairNothingIsWritten) {
  save(3, 2, 1);
  write_bytes(files_of(0).front(), "");
  const auto before = contents();
  const std::vector<ScrubbedFolder> found = scrubbed(/*repairs=*/false);
  EXPECT_EQ(num_damaged(found), 1u);
  EXPECT_EQ(num_lost(found), 1u);
  EXPECT_TRUE(contents() == before);
}

TEST_F(ScrubTest, EveryCheckpointOfARunIsVerified) {
  fs::create_directories(root() + "/run/checkpoints");
  for (const int step : {1, 2, 3}) {
    ASSERT_TRUE(SmallState(step).save(root() + "/run/checkpoints").ok());
  }
  const std::string run = root() + "/run";
  EXPECT_EQ(num_damaged(scrub(std::span(&run, 1)).value()), 0u);
  const std::string config = run + "/checkpoints/step-000002/config.resolved.toml";
  write_bytes(config, "[run]\nseed = 1338\n");
  const std::vector<ScrubbedFolder> found = scrub(std::span(&run, 1)).value();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(num_damaged(found), 1u);
  EXPECT_EQ(found[1].step, 2);
  EXPECT_NE(found[1].damage.front().find("config.resolved.toml"), std::string::npos);
  EXPECT_EQ(found[1].lost.size(), 1u);
}

}  // namespace
}  // namespace trireme
