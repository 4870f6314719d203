#include "config/storage_cluster_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace trireme {
namespace {

constexpr std::string_view kGoodStorage =
    "[storage]\n"                    // 1
    "servers = 10\n"                 // 2
    "disk_bytes = 1e12\n"            // 3
    "bytes_per_s = 1e9\n"            // 4
    "repair_bytes_per_s = 1e8\n"     // 5
    "disk_losses_per_year = 0.01\n"  // 6
    "worst_first = false\n";         // 7

std::string without(const std::string& key) {
  std::string text(kGoodStorage);
  const size_t begin = text.find("\n" + key) + 1;
  return text.erase(begin, text.find('\n', begin) + 1 - begin);
}

TEST(StorageClusterFile, IsReadWithItsDefaults) {
  const StorageCluster cluster = parse_storage_cluster(kGoodStorage, "s.toml").value();
  EXPECT_EQ(cluster.servers, 10);
  EXPECT_EQ(cluster.num_domains(), 10);
  EXPECT_EQ(cluster.raw_bytes(), 1e13);
  EXPECT_EQ(cluster.peak(), 1e9);
  EXPECT_FALSE(cluster.worst_first);
  EXPECT_EQ(loss_units(cluster).size(), 1u);
}

// Each bad text, and what its message must say: the line, what is wrong, and what would do.
TEST(StorageClusterFile, BadTextsAreRefusedWithTheKeyAndWhatWouldDo) {
  const auto with = [](const std::string& line) { return std::string(kGoodStorage) + line + "\n"; };
  const std::pair<std::string, std::vector<const char*>> kBad[] = {
      {with("server = 3"), {"s.toml:8:", "storage.server is unknown", "did you mean servers?"}},
      {with("detect_s = -1"), {"s.toml:8:", "storage.detect_s = -1", "must be from 0"}},
      {with("detect_s = nan"), {"s.toml:8:", "must be from 0"}},
      {with("full_share = 1.5"), {"s.toml:8:", "storage.full_share", "to 1"}},
      {with("domains = \"racks\""), {"s.toml:8:", "storage.domains", "must be"}},
      {with("domains = 11"), {"storage.domains = 11", "at most storage.servers = 10"}},
      {with("peak_bytes_per_s = 1e8"),
       {"storage.peak_bytes_per_s", "at least storage.bytes_per_s"}},
      {with("[disks]\nbytes = 3"), {"s.toml:9:", "disks.bytes is unknown", "[storage]"}},
      {without("servers"), {"storage.servers is missing", "how many servers"}},
      {without("disk_bytes"), {"storage.disk_bytes is missing"}},
      {without("bytes_per_s"), {"storage.bytes_per_s is missing"}},
      {without("repair_bytes_per_s"), {"storage.repair_bytes_per_s is missing", "repair may"}},
      {without("disk_losses_per_year"), {"nothing is ever lost", "storage.disk_losses_per_year"}},
      {"", {"storage.servers is missing", "storage.disk_bytes is missing"}},
      {"[storage\n", {"s.toml:1:", "not valid TOML"}},
  };
  for (const auto& [text, words] : kBad) {
    const Result<StorageCluster> cluster = parse_storage_cluster(text, "s.toml");
    ASSERT_FALSE(cluster.ok()) << text;
    EXPECT_EQ(cluster.error().kind, ErrorKind::Usage);
    for (const char* word : words) {
      EXPECT_NE(cluster.error().message.find(word), std::string::npos)
          << cluster.error().message << "\nlacks: " << word;
    }
  }
}

TEST(StorageClusterFile, BuiltInClustersAreThoseOfTheFolderAndMisspeltNamesAreHelped) {
  const std::filesystem::path folder =
      std::filesystem::path(__FILE__).parent_path() / ".." / ".." / "clusters" / "storage";
  size_t num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_TRUE(load_storage_cluster(entry.path().string()).ok()) << entry.path();
    ++num_files;
  }
  EXPECT_EQ(num_files, built_in_storage_clusters().size());
  for (const std::string& name : built_in_storage_clusters()) {
    EXPECT_TRUE(load_storage_cluster(name).ok()) << name;
  }
  const Result<StorageCluster> misspelt = load_storage_cluster("tectonics");
  ASSERT_FALSE(misspelt.ok());
  EXPECT_NE(misspelt.error().message.find("did you mean tectonic?"), std::string::npos);
  EXPECT_FALSE(load_storage_cluster("no/such/storage.toml").ok());
}

}  // namespace
}  // namespace trireme
