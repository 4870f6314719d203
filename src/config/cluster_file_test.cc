#include "config/cluster_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <sstream>

#include "base/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = fs::path(__FILE__).parent_path().parent_path().parent_path();
const char* const kLeast = "[device]\nfp32_flops = 1e12\nmemory_bytes_per_s = 1_000_000_000\n";

std::string error_of(const std::string& text) {
  const auto hardware = parse_hardware(text, "c.toml");
  EXPECT_TRUE(hardware.ok() || hardware.error().kind == ErrorKind::Usage);
  return hardware.ok() ? "" : hardware.error().message;
}

TEST(ClusterFile, EveryFileOfClustersLoadsAndEveryKeyIsDocumented) {
  int num_files = 0;
  for (const auto& entry : fs::directory_iterator(kRoot / "clusters")) {
    if (entry.is_directory()) continue;
    const auto hardware = load_hardware(entry.path().string());
    ASSERT_TRUE(hardware.ok()) << hardware.error().message;
    EXPECT_FALSE(hardware->name.empty()) << entry.path();
    ++num_files;
  }
  EXPECT_GT(num_files, 0);
  const std::string page = read_text_file((kRoot / "docs/formats/hardware.md").string()).value();
  Hardware hardware;
  for (const ConfigField& field : hardware_fields(hardware)) {
    EXPECT_NE(page.find(fmt::format("`{}`", field.key())), std::string::npos) << field.key();
  }
  OtherDevice other;
  for (const ConfigField& field : device_fields(other)) {
    EXPECT_NE(page.find(fmt::format("`{}`", field.name)), std::string::npos) << field.name;
  }
}

TEST(ClusterFile, WhatIsPrintedReadsBackToItselfForEveryField) {
  Hardware hardware = *parse_hardware(kLeast, "c.toml");
  hardware.name = "a \"b\"\\\n\xC3\xA9";
  for (const ConfigField& field : hardware_fields(hardware)) {
    if (auto* const* number = std::get_if<double*>(&field.value)) **number = 1.0 / 3.0;
    if (auto* const* number = std::get_if<int64_t*>(&field.value)) **number = 1234567890123;
    if (auto* const* number = std::get_if<int*>(&field.value)) **number = 77;
    const std::string printed = to_toml(hardware);
    const auto again = parse_hardware(printed, "again");
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(to_toml(*again), printed);
  }
}

TEST(ClusterFile, OtherDevicesStartFromTheDeviceAndReadBack) {
  const std::string others =
      "[devices.b]\nfirst_rank = 8\nranks = 4\nfp32_flops = 5e11\n"
      "[devices.a]\nfirst_rank = 4\nranks = 4\nname = \"A\"\n";
  const auto hardware = parse_hardware(others + kLeast, "c.toml");
  ASSERT_TRUE(hardware.ok()) << hardware.error().message;
  EXPECT_EQ(to_toml(*parse_hardware(to_toml(*hardware), "again")), to_toml(*hardware));
  std::vector<int> devices;
  for (int rank = 3; rank < 13; ++rank) devices.push_back(hardware->device_of(rank));
  EXPECT_EQ(devices, (std::vector{0, 1, 1, 1, 1, 2, 2, 2, 2, 0}));
  EXPECT_EQ(hardware->all_of_device(1).fp32_flops, 1e12);
  EXPECT_EQ(hardware->all_of_device(2).fp32_flops, 5e11);
  int64_t ranks = 0;
  for (int device = 0; device < 3; ++device) ranks += hardware->ranks_of_device(device, 10);
  EXPECT_EQ(ranks, 10);
  EXPECT_EQ(hardware->ranks_of_device(2, 10), 2);
}

TEST(ClusterFile, OtherDevicesThatCannotBeAreRefusedWithTheirLine) {
  const std::string node = "[tiers.node]\nranks = 4\nbytes_per_s = 1e9\n";
  for (const auto& [table, expected] : std::vector<std::pair<std::string, std::string>>{
           {"[devices.a]\nfirst_rank = 2\n", "multiple of tiers.node.ranks = 4"},
           {"[devices.a]\nranks = 3\n", "multiple of tiers.node.ranks = 4"},
           {"[devices.a]\nfirst_rank = -4\n", "devices.a.first_rank = -4 must be at least 0"},
           {"[devices.a]\nfp32_flops = 0\n", "devices.a.fp32_flops = 0"},
           {"[devices.a]\nmatmul_share = 1.5\n", "devices.a.matmul_share = 1.5"},
           {"[devices.a]\ncollective_s = 1\n", "c.toml:8: devices.a.collective_s is a number of"},
           {"[devices.a]\nflops = 1\n", "c.toml:8: devices.a.flops is unknown"},
           {"[devices]\nranks = 1\n", "names no device"},
           {"[devices.a]\nmemory_bytes = 1024\n", "state the memory of all devices, or of none"},
           {"[devices.a]\nfirst_rank = 4\n[devices.b]\nfirst_rank = 8\n", "not overlap"}}) {
    const std::string message = error_of(kLeast + node + table);
    EXPECT_NE(message.find(expected), std::string::npos) << table << message;
  }
}

TEST(ClusterFile, NodesOfAnotherSizeBelongToTheirDevice) {
  const std::string text = std::string(kLeast) +
                           "[tiers.node]\nranks = 8\n[tiers.cluster]\nbytes_per_s = 1e9\n"
                           "[devices.a]\nfirst_rank = 8\nranks = 8\nranks_per_node = 4\n"
                           "[devices.b]\nfirst_rank = 16\nranks_per_node = 16\n";
  const auto hardware = parse_hardware(text, "c.toml");
  ASSERT_TRUE(hardware.ok()) << hardware.error().message;
  EXPECT_EQ(to_toml(*parse_hardware(to_toml(*hardware), "again")), to_toml(*hardware));
  EXPECT_EQ(hardware->nodes().first_ranks(40), (std::vector<int64_t>{0, 8, 12, 16, 32}));
  const std::string same = "[devices.a]\nfirst_rank = 8\n";
  const auto without = parse_hardware(kLeast + same + "[tiers.node]\nranks = 8\n", "c.toml");
  const auto with =
      parse_hardware(kLeast + same + "ranks_per_node = 8\n[tiers.node]\nranks = 8\n", "c.toml");
  ASSERT_TRUE(without.ok() && with.ok());
  EXPECT_TRUE(without->nodes().are_equal());
  EXPECT_TRUE(with->nodes().are_equal());
}

TEST(ClusterFile, NodesThatCannotBeAreRefusedWithTheirLine) {
  const std::string node = "[tiers.node]\nranks = 4\n[tiers.all]\nbytes_per_s = 1e9\n";
  const std::string pods =
      "[tiers.node]\nranks = 4\n[tiers.pod]\nranks = 16\n[tiers.all]\nlatency_s = 0\n";
  const std::string own = "[devices.a]\nfirst_rank = 8\nranks_per_node = ";
  for (
      const auto& [table, expected] : std::vector<std::pair<std::string, std::string>>{
          {node + own + "0\n", "c.toml:10: devices.a.ranks_per_node = 0 must be at least 1; leave"},
          {node + own + "-2\n", "devices.a.ranks_per_node = -2 must be at least 1"},
          {node + own + "3\nranks = 8\n",
           "devices.a.ranks = 8 must be a multiple of devices.a.ranks_per_node = 3, because the "
           "ranks of a node have the same device: take 9"},
          {node + own + "2\nranks = 2\n[devices.b]\nfirst_rank = 12\n",
           "devices.b.first_rank = 12 must be 10 plus a multiple of tiers.node.ranks = 4, because "
           "the ranks of a node have the same device: take 14"},
          {own + "2\n", "state the ranks of the innermost tier"},
          {node + "[devices.a]\nranks_per_node = 2\nbf16_flops = 1e12\n",
           "devices.a.first_rank = 0 leaves no rank to [device]"},
          {pods + own + "6\n",
           "devices.a.ranks_per_node = 6 cuts nodes at the borders of tiers.pod"},
          {pods + "[devices.a]\nfirst_rank = 4\nranks_per_node = 8\n",
           "the first rank of these nodes, 4, must be multiples of it"},
          {node + "[devices.a100]\nfirst_rank = 8\n[devices.a10]\nranks_per_node = 2\n",
           "devices.a10.ranks_per_node = 2 describes nodes of a device that has no other line: did "
           "you mean [devices.a100]?"},
          {node + "[devices.a]\nranks_per_nodes = 2\n", "did you mean devices.ranks_per_node?"}}) {
    const std::string message = error_of(kLeast + table);
    EXPECT_NE(message.find(expected), std::string::npos) << table << message;
  }
}

TEST(ClusterFile, AbsentBf16IsFp32AndTheRestHasItsDefaults) {
  const Hardware hardware = *parse_hardware(kLeast, "c.toml");
  EXPECT_EQ(hardware.bf16_flops, 1e12);
  EXPECT_EQ(hardware.memory_bytes_per_s, 1e9);
  EXPECT_EQ(hardware.matmul_share, Hardware{}.matmul_share);
  EXPECT_EQ(hardware.nodes().size_at(0), 1);
}

TEST(ClusterFile, EveryProblemIsSaidWithItsLine) {
  const std::string error = error_of(
      "[device]\nfp32_flop = 1e12\nmemory_bytes = \"much\"\n[links.inside_node]\nlatency_s = 1\n");
  EXPECT_NE(error.find("c.toml:2: device.fp32_flop is unknown; did you mean device.fp32_flops?"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("c.toml:3: device.memory_bytes = \"much\" must be"), std::string::npos)
      << error;
  EXPECT_NE(error.find("links.inside_node is unknown"), std::string::npos) << error;
  EXPECT_NE(error_of("[device").find("c.toml:1:"), std::string::npos);
}

TEST(ClusterFile, TheFileOfARunIsToldSoOnce) {
  const std::string error = error_of("[model]\nlayers = 2\n[run]\nsteps = 3\nstep = 4\n");
  EXPECT_EQ(error.rfind("c.toml:2: model.layers is a key of a run", 0), 0u) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

// A line of numbers without a source cannot be checked by anybody.
TEST(ClusterFile, EveryNumberOfEveryFileHasItsSourceInAComment) {
  int num_numbers = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "clusters")) {
    if (entry.path().extension() != ".toml") continue;
    std::istringstream text(read_text_file(entry.path().string()).value());
    std::string line;
    for (int number = 1; std::getline(text, line); ++number) {
      const size_t equals = line.find(" = ");
      if (line.empty() || line[0] == '#' || equals == std::string::npos) continue;
      const bool is_number = std::isdigit(line[equals + 3]) != 0;
      if (!is_number) continue;
      ++num_numbers;
      const size_t comment = line.find(" # ");
      EXPECT_TRUE(comment != std::string::npos && line.size() > comment + 6)
          << entry.path().filename() << ":" << number << ": " << line
          << " has no source: write a comment behind it";
    }
  }
  EXPECT_GT(num_numbers, 200);
}

TEST(ClusterFile, RingsAndAdaptersReadBackAndWrongOnesAreRefusedWithTheirLine) {
  const std::string node = fmt::format("{}[tiers.node]\nranks = 8\nbytes_per_s = 1e11\n", kLeast);
  const std::string ring =
      node + "[tiers.all]\nbytes_per_s = 2.5e10\nadapters = 4\nis_ring = true\n";
  const auto hardware = parse_hardware(ring, "c.toml");
  ASSERT_TRUE(hardware.ok()) << hardware.error().message;
  EXPECT_TRUE(hardware->tiers[1].is_ring);
  EXPECT_EQ(bytes_per_s_of_rank(hardware->tiers, 1), 1.25e10);
  EXPECT_EQ(parse_hardware(to_toml(*hardware), "again")->tiers, hardware->tiers);
  for (const auto& [lines, expected] : std::vector<std::pair<std::string, std::string>>{
           {"adapters = -1\n", "c.toml:9: tiers.all.adapters = -1 must be at least 0"},
           {"adapters = 2.5\n", "c.toml:9: tiers.all.adapters = 2.5 must be"},
           {"switch_share = 1.5\n", "c.toml:9: tiers.all.switch_share = 1.5 must be above 0"},
           {"is_ring = true\nis_torus = true\n",
            "c.toml:9: tiers.all.is_ring = true beside is_torus"},
           {"is_ring = true\nsums_in_switch = true\n", "remove one of the two lines"},
           {"is_ring = 3\n", "c.toml:9: tiers.all.is_ring = 3 must be"},
           {"oversubscription = 0.5\n",
            "c.toml:9: tiers.all.oversubscription = 0.5 must be at least 1"},
           {"is_rings = true\n", "did you mean tiers.is_ring"}}) {
    const std::string message = error_of(node + "[tiers.all]\nbytes_per_s = 1e9\n" + lines);
    EXPECT_NE(message.find(expected), std::string::npos) << lines << message;
  }
}

TEST(ClusterFile, WhatCannotBePricedWithIsRefused) {
  const std::string missing = error_of("");
  EXPECT_NE(missing.find("device.fp32_flops = 0"), std::string::npos) << missing;
  EXPECT_NE(missing.find("device.memory_bytes_per_s"), std::string::npos) << missing;
  for (const char* wrong :
       {"matmul_share = 1.5\n", "matmul_share = 0\n", "memory_bytes = -1\n", "[node]\nranks = -1\n",
        "[inside_node]\nbytes_per_s = -1\n", "[inside_node]\nlatency_s = nan\n",
        "[between_nodes]\nlatency_s = inf\n"}) {
    const std::string error = error_of(fmt::format("{}{}", kLeast, wrong));
    EXPECT_TRUE(error.starts_with("c.toml:")) << wrong;
    EXPECT_TRUE(std::isdigit(error[7])) << "no line in: " << error;
  }
  EXPECT_EQ(error_of(kLeast), "");
}

bool is_number(const ConfigField& field) {
  return std::holds_alternative<double*>(field.value) ||
         std::holds_alternative<int*>(field.value) || std::holds_alternative<int64_t*>(field.value);
}

// The error names the line, the value and what it must be.
void expect_refused(const std::string& text, int line, std::string_view name,
                    const std::string& value) {
  const std::string error = error_of(text);
  EXPECT_NE(error.find(fmt::format("c.toml:{}: ", line)), std::string::npos) << text << error;
  const size_t at = error.find(fmt::format(".{} = {}", name, value));
  ASSERT_NE(at, std::string::npos) << error;
  EXPECT_NE(error.find(" must be ", at), std::string::npos) << error;
}

// The least of a file, without the line of a key.
std::string least_without(std::string_view name) {
  std::string text;
  for (const std::string_view line : {"fp32_flops = 1e12\n", "memory_bytes_per_s = 1e9\n"}) {
    if (!line.starts_with(name)) text += line;
  }
  return text;
}

// Every number of the file, also one that is added later.
TEST(ClusterFile, NoNumberMayBeNegativeOrAWord) {
  Hardware hardware;
  LinkTier link;
  OtherDevice other;
  const auto check = [&](const std::vector<ConfigField>& fields, const std::string& table) {
    for (const ConfigField& field : fields) {
      if (!is_number(field)) continue;
      const bool is_device = table == "device";
      const std::string rest = is_device ? least_without(field.name) : kLeast;
      for (const std::string value : {"-8", "\"much\""}) {
        expect_refused(fmt::format("[{}]\n{} = {}\n{}", table, field.name, value, rest), 2,
                       field.name, value);
      }
    }
  };
  check(hardware_fields(hardware), "device");
  check(device_fields(other), "devices.a");
  check(tier_fields(link), "tiers.outer");
}

TEST(ClusterFile, SharesAreAtMostOne) {
  for (const char* name : {"matmul_share", "attention_share", "attention_backward_share",
                           "memory_share", "overlap_share", "offload_share"}) {
    expect_refused(fmt::format("{}{} = 1.01\n", kLeast, name), 4, name, "1.01");
  }
  // Loads and sums may run beside multiply-adds.
  expect_refused(fmt::format("{}vector_share = 8.01\n", kLeast), 4, "vector_share", "8.01");
}

TEST(ClusterFile, TiersThatDoNotDivideAreRefusedWithTheLineAndTheOtherTier) {
  const std::string node = fmt::format("{}[tiers.node]\nranks = 8\n", kLeast);
  for (const int ranks : {4, 8, 12, 20}) {
    const std::string error = error_of(
        fmt::format("{}[tiers.pod]\nranks = {}\n[tiers.all]\nlatency_s = 1e-6\n", node, ranks));
    const bool is_inner = ranks < 8;
    const std::string expected =
        is_inner ? "" : fmt::format("c.toml:7: tiers.pod.ranks = {} must be a multiple of", ranks);
    EXPECT_EQ(error.substr(0, expected.size()), expected) << error;
    if (is_inner) {
      EXPECT_EQ(error, "");  // the order of the tables does not matter
    } else {
      EXPECT_NE(error.find("change one of them"), std::string::npos) << error;
    }
  }
  const std::string no_ranks =
      error_of(node + "[tiers.pod]\nlatency_s = 1e-6\n[tiers.all]\nlatency_s = 1e-6\n");
  EXPECT_NE(no_ranks.find("may leave it out"), std::string::npos) << no_ranks;
}

TEST(ClusterFile, AFileThatDoesNotExistIsNamedWithTheNearestOne) {
  const auto missing = load_hardware((kRoot / "clusters/dgx-h10.toml").string());
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("did you mean"), std::string::npos);
  EXPECT_NE(missing.error().message.find("clusters/dgx-h100.toml"), std::string::npos);
}

// Every file of clusters/ is built in, under its name with and without the ending.
TEST(ClusterFile, TheNameOfABuiltInClusterStandsForItsFile) {
  size_t num_files = 0;
  for (const auto& entry : fs::directory_iterator(kRoot / "clusters")) {
    if (entry.is_directory()) continue;
    const std::string read = to_toml(load_hardware(entry.path().string()).value());
    for (const fs::path& name : {entry.path().filename(), entry.path().stem()}) {
      const auto built_in = load_hardware(name.string());
      ASSERT_TRUE(built_in.ok()) << built_in.error().message;
      EXPECT_EQ(to_toml(*built_in), read);
    }
    ++num_files;
  }
  EXPECT_EQ(built_in_clusters().size(), num_files);
}

TEST(ClusterFile, AnUnknownClusterIsRefusedWithThoseThatMayBeMeantAndHowToDescribeOne) {
  for (const auto& [wrong, remedy] : std::vector<std::pair<std::string, std::string>>{
           {"H100", "did you mean the built-in dgx-h100 or h100-pods-24k"},
           {"dgx-h10", "did you mean the built-in dgx-h100;"},
           {"DGX-B200.toml", "did you mean the built-in dgx-b200;"},
           {"clusters/nope.toml", "the built-in clusters are dgx-a100-40g, "},
           {"elsewhere/mi300.toml", "did you mean the built-in mi300x;"}}) {
    const auto missing = load_hardware(wrong);
    ASSERT_FALSE(missing.ok());
    const std::string& message = missing.error().message;
    EXPECT_TRUE(message.starts_with(wrong + ": no such file")) << message;
    EXPECT_NE(message.find(remedy), std::string::npos) << message;
    EXPECT_NE(message.find("trireme calibrate --out FILE"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace trireme
