#include "agent/parts_transfer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/status_askers.h"
#include "base/guest_parts.h"
#include "comm/tcp/handshake.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class PartsTransfer : public testing::Test {
 protected:
  PartsTransfer()
      : root_(fs::temp_directory_path() / ("trireme_parts." + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(from());
    fs::create_directories(to());
  }
  ~PartsTransfer() override { fs::remove_all(root_); }

  std::string from() const { return (root_ / "from").string(); }
  std::string to() const { return (root_ / "to").string(); }
  static void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  static std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  // Takes in whoever comes, until the sender is done.
  void receive_from(const PartsSender& sender) {
    const Deadline deadline = Deadline::after(10.0);
    while (!sender.is_over() && deadline.left_ms() > 0) take_visitors();
    ASSERT_TRUE(sender.is_over());
  }
  void take_visitors() {
    auto arrived = reception_.receive({}, judge_of_agents, 5);
    ASSERT_TRUE(arrived.ok());
    for (Reception::Visitor& visitor : *arrived) {
      EXPECT_EQ(visitor.hello.purpose, Purpose::Parts);
      receivers_.take(std::move(visitor.socket), to());
    }
  }

  Reception reception_{std::move(listen_at("127.0.0.1:0").value()), "secret", {}};
  fs::path root_;
  PartsReceivers receivers_;
};

// Complete checkpoints arrive byte for byte, and nothing else of the folder does. A second transfer
// takes the place of the first.
TEST_F(PartsTransfer, BringsCompleteCheckpointsAndNothingElse) {
  const std::string large(3'000'001, 'x');
  write(from() + "/step-000012/shard", large);
  write(from() + "/step-000012/index.json", "{}");
  write(from() + "/step-000012/empty", "");
  write(from() + "/step-000013.tmp-9/shard", "unfinished");
  write(from() + "/resume/shard", "of a start");
  write(from() + "/mapped-0-1-0", "a file of a rank");
  {
    const PartsSender sender(reception_.address(), "secret", "a/host", from());
    receive_from(sender);
    EXPECT_TRUE(sender.result().ok()) << sender.result().error().message;
  }
  const std::string guest = guest_folder(to(), "a/host");
  EXPECT_EQ(guest_folders(to()), std::vector<std::string>{guest});
  EXPECT_EQ(read(guest + "/step-000012/shard"), large);
  EXPECT_EQ(read(guest + "/step-000012/index.json"), "{}");
  EXPECT_TRUE(fs::exists(guest + "/step-000012/empty"));
  EXPECT_EQ(std::distance(fs::recursive_directory_iterator(guest), {}), 4);

  fs::remove_all(from() + "/step-000012");
  write(from() + "/step-000014/shard", "newer");
  {
    const PartsSender sender(reception_.address(), "secret", "a/host", from());
    receive_from(sender);
    EXPECT_TRUE(sender.result().ok());
  }
  EXPECT_FALSE(fs::exists(guest + "/step-000012"));
  EXPECT_EQ(read(guest + "/step-000014/shard"), "newer");
  remove_guests(to());
  EXPECT_TRUE(fs::is_empty(to()));
}

TEST_F(PartsTransfer, ASenderWithoutTheSecretIsRefusedAndOneWithoutPartsSaysNothing) {
  write(from() + "/step-000001/shard", "x");
  {
    const PartsSender sender(reception_.address(), "wrong", "host", from());
    receive_from(sender);
    EXPECT_FALSE(sender.result().ok());
  }
  {
    const PartsSender sender("127.0.0.1:1", "secret", "host", "");
    receive_from(sender);
    EXPECT_TRUE(sender.result().ok());
  }
  EXPECT_TRUE(fs::is_empty(to()));
}

// A visitor that knows the secret must not write outside the folder of its host, and a transfer
// that breaks off leaves nothing.
TEST_F(PartsTransfer, RefusesNamesThatLeadElsewhereAndLeavesNothingOfABrokenTransfer) {
  struct Head {
    uint32_t magic = 0x50545254;
    uint32_t name_bytes = 0;
    uint64_t bytes = 0;
  };
  for (const std::string name :
       {"../../escaped/file", "file", "/tmp/file", "a/../b", "a/.hidden", "step-1/cut"}) {
    std::thread visitor([&] {
      auto socket = connect_to(reception_.address(), Deadline::after(5.0));
      ASSERT_TRUE(socket.ok());
      const Deadline deadline = Deadline::after(5.0);
      ASSERT_TRUE(greet(*socket, "secret", {.purpose = Purpose::Parts}, deadline).ok());
      for (const std::string& text : {std::string("host"), name}) {
        const Head head{.name_bytes = uint32_t(text.size()), .bytes = text == "host" ? 0u : 9u};
        (void)send_all(*socket, std::as_bytes(std::span(&head, 1)), deadline).ok();
        (void)send_all(*socket, std::as_bytes(std::span(text)), deadline).ok();
      }
    });
    const Deadline deadline = Deadline::after(0.2);
    while (deadline.left_ms() > 0) take_visitors();
    visitor.join();
  }
  const Deadline deadline = Deadline::after(5.0);
  while (!fs::is_empty(to()) && deadline.left_ms() > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(fs::is_empty(to()));
  EXPECT_FALSE(fs::exists(root_ / "escaped"));
}

}  // namespace
}  // namespace trireme
