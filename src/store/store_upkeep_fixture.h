#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "store/shared_store_fixture.h"

namespace trireme {

// A store of servers, and what its operators do.
class StoreUpkeep : public SharedStore {
 protected:
  void put(const std::string& path, const std::string& content) {
    auto store = open(StoreAccess::Write);
    ASSERT_TRUE(store.ok()) << store.error().message;
    const auto put = put_files(**store, {made(path, content)});
    ASSERT_TRUE(put.ok()) << put.error().message;
  }
  Result<ScrubTotals> scrub(StoreOptions options) {
    options.access = StoreAccess::Maintain;
    TRIREME_TRY(store, Store::open(file_, options));
    return scrub_store(*store);
  }
  Result<ScrubTotals> scrub() { return scrub(options(StoreAccess::Maintain)); }
  void expect_healthy(const std::string& path, const std::string& content) {
    auto store = open(StoreAccess::Read);
    ASSERT_TRUE(store.ok()) << store.error().message;
    EXPECT_EQ(word_of(*health_of(**store)), "healthy");
    EXPECT_EQ(content_of(**store, path).value(), content);
  }
  uint64_t incarnation_of(size_t server) {
    auto store = open(StoreAccess::Read);
    return store.ok() ? (*store)->overview()->servers[server].incarnation : 0;
  }
  std::string why_unusable(size_t server) {
    auto store = open(StoreAccess::Read);
    return store.ok() ? (*store)->why_unusable(int(server)) : store.error().message;
  }
  bool gives_up(size_t server, uint64_t store) const {
    StorePeer peer(addresses_[server], secret_of_store("secret"));
    return peer.ask({.op = StoreOp::Release, .store = store}, 10.0).ok();
  }
  bool is_empty_server(size_t server) {
    return why_unusable(server).find("no store yet") != std::string::npos;
  }
  template <typename Condition>
  static bool comes_true(const Condition& condition) {
    const Deadline deadline = Deadline::after(30);
    while (deadline.left_ms() > 0) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
};

}  // namespace trireme
