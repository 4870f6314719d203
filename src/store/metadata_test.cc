#include "store/metadata.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace trireme {
namespace {

constexpr int kServers = 5;

MetadataCommand creation() {
  MetadataCommand create{.kind = CommandKind::Create};
  create.number = 1;
  create.facts.id = 7;
  create.facts.name = "test";
  create.facts.code = {2, 1};
  for (int server = 0; server < kServers; ++server) {
    create.servers.push_back({.name = fmt::format("s{}", server)});
  }
  return create;
}

// A store's metadata, with commands that have numbers of their own.
struct Driver {
  Driver() { EXPECT_TRUE(unpack_tokens(metadata.apply(pack_command(creation()))).ok()); }

  Result<std::vector<uint64_t>> run(MetadataCommand command) {
    command.number = ++number;
    last = pack_command(command);
    last_answer = metadata.apply(last);
    return unpack_tokens(last_answer);
  }
  Result<uint64_t> begin(const std::string& path) {
    MetadataCommand command{.kind = CommandKind::Begin};
    command.paths.push_back(path);
    TRIREME_TRY(tokens, run(command));
    return tokens.at(0);
  }
  Result<std::vector<uint64_t>> commit(const std::string& path, uint64_t token, int lacking = 0) {
    MetadataCommand command{.kind = CommandKind::Commit};
    command.view = view;
    BlockRecord block{.id = block_id(token, 0), .chunk_bytes = 10, .servers = servers};
    block.checksums.resize(3);
    for (int chunk = 0; chunk < lacking; ++chunk) block.servers[size_t(chunk)] = kNoServer;
    command.blocks.push_back(block);
    WrittenFile file{.path = path};
    file.record.extents.push_back({block.id, 0, 20});
    file.record.bytes = 20;
    file.record.token = token;
    command.files.push_back(file);
    return run(command);
  }
  bool has(const std::string& path) const {
    MetadataQuestion question{.kind = QuestionKind::File};
    question.text = path;
    return unpack_files(metadata.query(pack_question(question))).ok();
  }
  uint64_t token_of(const std::string& path) const {
    MetadataQuestion question{.kind = QuestionKind::File};
    question.text = path;
    return unpack_files(metadata.query(pack_question(question)))->files.at(0).record.token;
  }

  Metadata metadata;
  uint64_t view = 1000;                      // of the writer
  std::vector<int32_t> servers = {0, 1, 2};  // of the block that commit() seals
  uint64_t number = 100;
  std::string last, last_answer;
};

TEST(Metadata, ANewerWriterFencesAnOlderOne) {
  Driver driver;
  const uint64_t old = driver.begin("x").value();
  const uint64_t newer = driver.begin("x").value();
  EXPECT_NE(driver.commit("x", old).error().message.find("old epoch"), std::string::npos);
  EXPECT_FALSE(driver.has("x"));
  EXPECT_TRUE(driver.commit("x", newer).ok());
  EXPECT_EQ(driver.token_of("x"), newer);
}

TEST(Metadata, ABlockIsNeverSealedBelowOneChunkMoreThanNeeded) {
  Driver driver;
  EXPECT_FALSE(driver.commit("x", driver.begin("x").value(), 1).ok());
  EXPECT_FALSE(driver.has("x"));
}

TEST(Metadata, AServerHasAtMostOneChunkOfABlock) {
  Driver driver;
  driver.servers = {0, 1, 1};
  EXPECT_FALSE(driver.commit("x", driver.begin("x").value()).ok());
  driver.servers = {0, 1, 2};
  EXPECT_TRUE(driver.commit("x", driver.begin("x").value()).ok());
}

// A chunk on a disk that was replaced while the block was written does not count.
TEST(Metadata, AChunkOnADiskThatWasReplacedMeanwhileIsNotThere) {
  Driver driver;
  const auto view = [&] { return unpack_overview(driver.metadata.query(pack_question({})))->view; };
  driver.view = view();
  MetadataCommand replaced{.kind = CommandKind::Server};
  replaced.servers.push_back({.name = "s0", .incarnation = 2});
  ASSERT_TRUE(driver.run(replaced).ok());
  EXPECT_FALSE(driver.commit("x", driver.begin("x").value()).ok());
  driver.view = view();
  EXPECT_TRUE(driver.commit("x", driver.begin("x").value()).ok());
}

TEST(Metadata, AMaintainerInTheBackgroundTakesThePlaceOfNoOtherOne) {
  Driver driver;
  const auto begin = [&](std::vector<uint64_t> after, const char* path = kMaintainerPath) {
    MetadataCommand command{.kind = CommandKind::Begin};
    command.paths.emplace_back(path);
    command.tokens = std::move(after);
    const auto tokens = driver.run(command);
    return tokens.ok() ? tokens->front() : 0;
  };
  const auto end = [&](uint64_t token) {
    MetadataCommand command{.kind = CommandKind::Abort};
    command.tokens = {token};
    EXPECT_TRUE(driver.run(command).ok());
  };
  EXPECT_EQ(begin({0}, "x"), 0u);  // it is for maintainers only
  const uint64_t command = begin({});
  EXPECT_GT(command, 0u);
  EXPECT_EQ(begin({0}), 0u);
  EXPECT_EQ(begin({command + 1}), 0u);
  const uint64_t after_dead = begin({command});  // nothing was heard of it
  EXPECT_GT(after_dead, command);
  EXPECT_GT(begin({}), after_dead);  // a command takes the place of any other one
  end(after_dead);
  EXPECT_EQ(begin({0}), 0u);
  end(after_dead + 1);
  EXPECT_GT(begin({0}), after_dead + 1);
}

TEST(Metadata, ProgressIsThatOfTheMaintainerAndPartOfTheSnapshot) {
  Driver driver;
  const UpkeepProgress progress{
      .kind = UpkeepKind::Drain, .done = 3, .total = 9, .bytes = 70, .ms = 1200};
  const auto renew = [&](uint64_t token) {
    MetadataCommand command{.kind = CommandKind::Renew};
    command.tokens = {token};
    command.progress = progress;
    EXPECT_TRUE(driver.run(command).ok());
  };
  const auto shown = [](const Metadata& metadata) {
    const std::string answer = metadata.query(pack_question({.kind = QuestionKind::Overview}));
    return unpack_overview(answer)->progress;
  };
  renew(*driver.begin("x"));
  EXPECT_EQ(shown(driver.metadata), UpkeepProgress{});
  renew(*driver.begin(kMaintainerPath));
  EXPECT_EQ(shown(driver.metadata), progress);
  Metadata restored;
  ASSERT_TRUE(restored.restore(driver.metadata.snapshot()).ok());
  EXPECT_EQ(shown(restored), progress);
  EXPECT_EQ(restored.snapshot(), driver.metadata.snapshot());
  EXPECT_TRUE(driver.begin(kMaintainerPath).ok());
  EXPECT_EQ(shown(driver.metadata), UpkeepProgress{});
}

TEST(Metadata, CountsTheRenewalsOfAWriterAndRefusesThoseOfATokenThatHasEnded) {
  Driver driver;
  const uint64_t token = driver.begin("x").value(), other = driver.begin("y").value();
  MetadataCommand renew{.kind = CommandKind::Renew};
  renew.tokens = {token};
  ASSERT_TRUE(driver.run(renew).ok());
  EXPECT_EQ(driver.metadata.apply(driver.last), driver.last_answer);
  const auto renewals = [](const Metadata& metadata) {
    return unpack_overview(metadata.query(pack_question({})))->renewals;
  };
  EXPECT_EQ(renewals(driver.metadata), (std::vector<uint64_t>{1, 0}));
  Metadata copy;
  ASSERT_TRUE(copy.restore(driver.metadata.snapshot()).ok());
  EXPECT_EQ(renewals(copy), (std::vector<uint64_t>{1, 0}));
  EXPECT_EQ(copy.snapshot(), driver.metadata.snapshot());
  MetadataCommand abort{.kind = CommandKind::Abort};
  abort.tokens = {other};
  ASSERT_TRUE(driver.run(abort).ok());
  renew.tokens = {token, other};
  EXPECT_FALSE(driver.run(renew).ok());
  EXPECT_EQ(renewals(driver.metadata), std::vector<uint64_t>{1});
}

// The request may have lain in a connection that was cut off, while its client got an answer
// another way and put the file again.
TEST(Metadata, ALateRemovalSparesAFileThatWasPutSince) {
  Driver driver;
  const uint64_t first = driver.begin("x").value();
  ASSERT_TRUE(driver.commit("x", first).ok());
  MetadataCommand remove{.kind = CommandKind::Remove};
  remove.paths.emplace_back("x");
  remove.tokens = {first};
  ASSERT_TRUE(driver.run(remove).ok());
  ASSERT_TRUE(driver.commit("x", driver.begin("x").value()).ok());
  EXPECT_FALSE(driver.run(remove).ok());
  EXPECT_TRUE(driver.has("x"));
}

TEST(Metadata, TellsTheGarbageFromAnyServerOn) {
  Driver driver;
  ASSERT_TRUE(driver.commit("x", driver.begin("x").value()).ok());
  MetadataCommand remove{.kind = CommandKind::Remove};
  remove.paths.emplace_back("x");
  ASSERT_TRUE(driver.run(remove).ok());
  for (uint64_t first = 0; first <= 4; ++first) {
    MetadataQuestion question;
    question.number = first;
    const auto overview = unpack_overview(driver.metadata.query(pack_question(question)));
    EXPECT_EQ(overview->garbage.size(), first < 3 ? 3 - first : 0);
  }
}

TEST(Metadata, ADamagedFileThatIsNoChunkOfABlockBecomesGarbage) {
  Driver driver;
  const uint64_t sealed = driver.begin("x").value();
  ASSERT_TRUE(driver.commit("x", sealed).ok());
  const uint64_t open = driver.begin("y").value(), ended = driver.begin("z").value();
  MetadataCommand abort{.kind = CommandKind::Abort};
  abort.tokens = {ended};
  ASSERT_TRUE(driver.run(abort).ok());
  const auto lose = [&](uint64_t block, int chunk, int server) {
    MetadataCommand lose{.kind = CommandKind::Lose};
    lose.moves.push_back({block, chunk, server, kNoServer});
    EXPECT_TRUE(driver.run(lose).ok());
    return unpack_overview(driver.metadata.query(pack_question({})))->garbage.size();
  };
  EXPECT_EQ(lose(block_id(sealed, 0), 0, 0), 0u);  // a chunk that a repair writes again
  EXPECT_EQ(lose(block_id(open, 0), 0, 0), 0u);    // its writer may still seal it
  EXPECT_EQ(lose(block_id(999, 0), 0, 0), 0u);     // no writer has had this token yet
  EXPECT_EQ(lose(block_id(sealed, 0), 3, 0), 0u);  // there is no such chunk,
  EXPECT_EQ(lose(block_id(sealed, 0), 1, 9), 0u);  // and no such server
  EXPECT_EQ(lose(block_id(sealed, 0), 1, 4), 1u);
  EXPECT_EQ(lose(block_id(ended, 0), 0, 4), 2u);
  EXPECT_EQ(lose(block_id(ended, 0), 0, 4), 2u);
}

// A drain has read the chunk and verified it before it was reported as lost.
TEST(Metadata, AChunkThatWasMovedIsKeptAlthoughItWasReportedAsLostMeanwhile) {
  Driver driver;
  const uint64_t block = block_id(driver.begin("x").value(), 0);
  ASSERT_TRUE(driver.commit("x", token_of_block(block)).ok());
  MetadataCommand move{.kind = CommandKind::Lose};
  move.moves.push_back({block, 0, 0, 3});
  ASSERT_TRUE(driver.run(move).ok());
  move.kind = CommandKind::Place;
  move.view = 1000;
  ASSERT_TRUE(driver.run(move).ok());
  const auto overview = unpack_overview(driver.metadata.query(pack_question({})));
  EXPECT_EQ(overview->chunks_of_server, (std::vector<int64_t>{0, 1, 1, 1, 0}));
  ASSERT_EQ(overview->garbage.size(), 1u);
  EXPECT_EQ(overview->garbage[0].server, 0);
}

TEST(Metadata, NamesStayInsideTheStore) {
  Driver driver;
  for (const std::string path :
       {"", "/etc/passwd", "..", "a/../b", "a//b", "a/", "./a", "a\\b", "a\nb"}) {
    EXPECT_FALSE(driver.begin(path).ok()) << path;
  }
  EXPECT_FALSE(driver.begin(std::string("a\0b", 3)).ok());
  EXPECT_FALSE(driver.begin(std::string(256, 'a')).ok());
  EXPECT_FALSE(driver.begin(std::string(2000, '/')).ok());
  EXPECT_TRUE(driver.commit("a", driver.begin("a").value()).ok());
  EXPECT_FALSE(driver.begin("a/b").ok());
  for (const std::string path : {".maintainer", ".maintainer/x"}) {
    EXPECT_FALSE(driver.commit(path, driver.begin(path).value()).ok()) << path;
  }
}

// Random commands do to the metadata what they do to a map from names to the newest token. Repeats
// are recognized, refusals change nothing, and a snapshot is the whole state.
TEST(Metadata, FollowsAModelUnderRandomCommands) {
  std::mt19937_64 random(1);
  for (int history = 0; history < 20; ++history) {
    Driver driver;
    std::map<std::string, uint64_t> model, writers;
    for (int step = 0; step < 100; ++step) {
      const std::string path = fmt::format("p{}", random() % 3);
      const std::string before = driver.metadata.snapshot();
      bool is_done = true;
      switch (random() % 5) {
        case 0:
          writers[path] = driver.begin(path).value();
          break;
        case 1:
        case 2: {
          const uint64_t token = writers.contains(path) ? writers[path] : 12345;
          is_done = driver.commit(path, token).ok();
          ASSERT_EQ(is_done, writers.contains(path));
          if (is_done) model[path] = token;
          writers.erase(path);
          break;
        }
        case 3: {
          MetadataCommand remove{.kind = CommandKind::Remove};
          remove.paths.push_back(path);
          is_done = driver.run(remove).ok();
          ASSERT_EQ(is_done, model.erase(path) == 1);
          break;
        }
        default: {
          if (!model.contains(path)) continue;
          MetadataCommand place{.kind = CommandKind::Place};
          place.view = 1000;
          place.moves.push_back({block_id(model[path], 0), 0, 0, 3});
          is_done = driver.run(place).ok();
        }
      }
      const std::string after = driver.metadata.snapshot();
      if (!is_done) {
        ASSERT_EQ(after, before);
      }
      ASSERT_EQ(driver.metadata.apply(driver.last), driver.last_answer);
      ASSERT_EQ(driver.metadata.snapshot(), after) << "a repeat has changed the state";
      for (const auto& [name, token] : model) ASSERT_EQ(driver.token_of(name), token);
      ASSERT_EQ(unpack_overview(driver.metadata.query(pack_question({})))->num_files, model.size());
      Metadata copy;
      ASSERT_TRUE(copy.restore(after).ok());
      ASSERT_EQ(copy.snapshot(), after);
    }
  }
}

TEST(Metadata, DamagedCommandsAndSnapshotsAreRefusedOrMeanSomethingElse) {
  Driver driver;
  ASSERT_TRUE(driver.commit("x", driver.begin("x").value()).ok());
  const std::string command = driver.last, snapshot = driver.metadata.snapshot();
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 3000; ++trial) {
    std::string bytes = trial % 2 == 0 ? command : snapshot;
    if (trial % 3 == 0) {
      bytes.resize(random() % bytes.size());
    } else {
      bytes[random() % bytes.size()] ^= char(1 + random() % 255);
    }
    Metadata other;
    if (trial % 2 == 1) {
      if (other.restore(bytes).ok()) {
        EXPECT_TRUE(Metadata().restore(other.snapshot()).ok());
      }
      continue;
    }
    ASSERT_TRUE(other.restore(snapshot).ok());
    other.apply(bytes);
    EXPECT_TRUE(Metadata().restore(other.snapshot()).ok());
  }
}

}  // namespace
}  // namespace trireme
