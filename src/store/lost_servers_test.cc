// A store of servers without each set of servers that may be lost, and with one server too few.

#include <fmt/format.h>

#include <bit>

#include "store/shared_store_fixture.h"

namespace trireme {
namespace {

class LostServers : public SharedStore {
 protected:
  void make(StoreCode code) {
    file_.code = code;
    for (size_t server = 0; server < size_t(code.num_chunks()); ++server) start_here(server);
    const Status created = create();
    ASSERT_TRUE(created.ok()) << created.error().message;
    auto store = open(StoreAccess::Write);
    ASSERT_TRUE(store.ok()) << store.error().message;
    const auto put = put_files(**store, {made("large", large_), made("a/small", small_)});
    ASSERT_TRUE(put.ok()) << put.error().message;
    EXPECT_EQ(put->chunks_to_repair, 0);
  }
  // Each set of servers is lost once; between two sets, few servers stop or start.
  void lose_each_set(StoreCode code) {
    make(code);
    uint32_t lost = 0;
    for (uint32_t number = 0; number < uint32_t{1} << code.num_chunks(); ++number) {
      const uint32_t set = number ^ number >> 1;
      if (std::popcount(set) > code.num_parity + 1) continue;
      for (size_t server = 0; server < size_t(code.num_chunks()); ++server) {
        const bool is_lost = (lost >> server & 1) != 0, is_next = (set >> server & 1) != 0;
        if (is_next && !is_lost) servers_[server].reset();
        if (is_lost && !is_next) start_here(server);
      }
      lost = set;
      if (std::popcount(set) <= code.num_parity) {
        expect_contents(set);
      } else {
        expect_refusal(set);
      }
    }
  }

 private:
  void expect_contents(uint32_t set) {
    auto store = open(StoreAccess::Read);
    ASSERT_TRUE(store.ok()) << "without " << set << ": " << store.error().message;
    for (const auto& [path, content] : {std::pair("large", large_), {"a/small", small_}}) {
      const Result<std::string> read = content_of(**store, path);
      ASSERT_TRUE(read.ok()) << "without " << set << ": " << read.error().message;
      EXPECT_EQ(*read, content) << "without " << set;
    }
  }
  // The metadata may be lost, too; then their servers are named.
  void expect_refusal(uint32_t set) {
    StoreOptions reading = options(StoreAccess::Read);
    reading.metadata_s = 1.0;
    auto store = Store::open(file_, reading);
    const Result<std::string> read = store.ok() ? content_of(**store, "large") : store.error();
    ASSERT_FALSE(read.ok()) << "without " << set;
    size_t num_named = 0;
    for (size_t server = 0; server < addresses_.size(); ++server) {
      const bool is_named = read.error().message.find(addresses_[server]) != std::string::npos;
      const bool is_lost = (set >> server & 1) != 0;
      num_named += is_named && is_lost ? 1 : 0;
    }
    const size_t num_lost = size_t(std::popcount(set));
    // If the metadata are lost, too, the refusal names the servers that were asked in time.
    const size_t least = store.ok() ? num_lost : 1;
    EXPECT_GE(num_named, least) << "without " << set << ": " << read.error().message;
  }

  const std::string large_ = random_bytes(1, 70'000);
  const std::string small_ = random_bytes(2, 33);
};

TEST_F(LostServers, OfThreeServersEachOneMayBeLostAndNoTwo) { lose_each_set({2, 1}); }

TEST_F(LostServers, OfSixServersEachTwoMayBeLostAndNoThree) { lose_each_set({4, 2}); }

}  // namespace
}  // namespace trireme
