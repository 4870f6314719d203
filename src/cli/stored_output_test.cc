// Commands for text, tokens and checkpoints read files of a store and write to it. What they write
// has the bytes that it has on this machine.

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cli/store_readers_fixture.h"

namespace trireme {
namespace {

using Args = std::vector<std::string>;

class StoredOutput : public StoreReaders {
 protected:
  void SetUp() override {
    StoreReaders::SetUp();
    put("text.txt", "text.txt");
  }
  // Runs a command here and in the store, and compares what it has written, and its report.
  static void expect_same(const Args& words, const std::string& in, const std::string& in_store,
                          const Args& options, const std::string& out) {
    const auto command = [&](const std::string& input, const std::string& output) {
      Args args = words;
      args.push_back(input);
      args.insert(args.end(), options.begin(), options.end());
      args.insert(args.end(), {"--out", output});
      return ok(args);
    };
    const std::string url = "store://demo/" + out;
    std::string here = command(in, out);
    const std::string there = command(in_store, url);
    for (size_t at = 0; (at = here.find(out, at)) != std::string::npos; at += url.size()) {
      here.replace(at, out.size(), url);
    }
    EXPECT_EQ(there, here);
    EXPECT_FALSE(std::filesystem::exists("outputs"));
    expect_equal(out, fetched(out));
  }
  static void expect_equal(const std::filesystem::path& left, const std::filesystem::path& right) {
    if (!std::filesystem::is_directory(left)) {
      EXPECT_TRUE(bytes_of(left) == bytes_of(right)) << left << " and " << right;
      return;
    }
    size_t num_left = 0, num_right = 0;
    for (const auto& entry : std::filesystem::directory_iterator(left)) {
      expect_equal(entry.path(), right / entry.path().filename());
      ++num_left;
    }
    for (const auto& entry : std::filesystem::directory_iterator(right)) {
      num_right += entry.exists() ? 1 : 0;
    }
    EXPECT_EQ(num_left, num_right) << left;
  }
};

TEST_F(StoredOutput, TextBecomesTokensWithinAStore) {
  expect_same({"tokenizer", "train"}, "text.txt", "store://demo/text.txt", {"--vocab-size", "280"},
              "tok.json");
  expect_same({"data", "prepare"}, "text.txt", "store://demo/text.txt",
              {"--tokenizer", "store://demo/tok.json"}, "prepared");
  ok({"data", "export", "data/val.tok", "--out", "val.bin"});
  put("val.bin", "val.bin");
  expect_same({"data", "import"}, "val.bin", "store://demo/val.bin", {"--tokenizer", "byte"},
              "imported.tok");
  put("data/val.tok", "val.tok");
  expect_same({"data", "export"}, "data/val.tok", "store://demo/val.tok", {}, "exported.bin");
  ok({"tokenizer", "export", "--tokenizer", "tok.json", "--out", "hf"});
  ok({"tokenizer", "export", "--tokenizer", "store://demo/tok.json", "--out", "store://demo/hf"});
  expect_equal("hf", fetched("hf"));
  expect_same({"tokenizer", "import"}, "hf/tokenizer.json", "hf/tokenizer.json", {}, "own.json");
}

TEST_F(StoredOutput, TokenizersOfAStoreEncodeAndDecodeItsTexts) {
  ok({"tokenizer", "train", "text.txt", "--vocab-size", "280", "--out", "tok.json"});
  put("tok.json", "tok.json");
  const auto same = [](const std::string& word, const std::string& input,
                       const std::string& stored) {
    const std::string here = ok({"tokenizer", word, input, "--tokenizer", "tok.json"});
    EXPECT_EQ(ok({"tokenizer", word, stored, "--tokenizer", "store://demo/tok.json"}), here);
    EXPECT_NE(here, "");
    return here;
  };
  std::ofstream("numbers") << same("encode", "text.txt", "store://demo/text.txt");
  put("numbers", "numbers");
  same("decode", "numbers", "store://demo/numbers");
  same("check", "text.txt", "store://demo/text.txt");
  ok({"data", "prepare", "text.txt", "--tokenizer", "tok.json", "--out", "prepared"});
  put("prepared/val.tok", "val.tok");
  same("decode", "prepared/val.tok", "store://demo/val.tok");
  const Args head = {"data", "inspect", "store://demo/val.tok", "--head", "9", "--tokenizer"};
  Args stored = head, local = head;
  stored.push_back("store://demo/tok.json");
  local.push_back("tok.json");
  EXPECT_EQ(ok(stored), ok(local));
}

TEST_F(StoredOutput, CheckpointsOfAStoreAreInspectedVerifiedConvertedAndWritten) {
  ok({"train", "tiny.toml", "--set", "run.steps=2", "--set", "run.threads_per_rank=1", "--set",
      "optim.warmup_steps=0", "--out", "run"});
  const std::string local = "run/checkpoints/step-000002";
  const std::string stored = "store://demo/run/checkpoints/step-000002";
  put("run", "run");
  const auto inspect = [](const std::string& path) {
    auto answer = parse_json(ok({"checkpoint", "inspect", path, "--json"}));
    EXPECT_EQ(answer["path"], path);
    answer.erase("path");
    return answer;
  };
  EXPECT_EQ(inspect(stored), inspect(local));
  EXPECT_EQ(ok({"checkpoint", "verify", stored}), stored + ": all checksums match\n");
  const auto logits = [](const std::string& path) {
    return ok({"checkpoint", "logits", path, "--tokens", "1,2,3"});
  };
  EXPECT_EQ(logits(stored), logits(local));
  expect_same({"checkpoint", "export"}, local, stored, {}, "hf");
  ok({"checkpoint", "import", "hf", "--out", "imported"});
  ok({"checkpoint", "import", "hf", "--out", "store://demo/imported"});
  EXPECT_EQ(inspect("store://demo/imported"), inspect("imported"));
  EXPECT_EQ(logits("store://demo/imported"), logits(local));
  // The newest checkpoint of a run in a store is not found, and the error says so.
  const std::string why = refused({"checkpoint", "inspect", "store://demo/run"}).err;
  EXPECT_NE(why.find("store://demo/run/checkpoints/step-000100"), std::string::npos) << why;
  EXPECT_NE(why.find("trireme store ls"), std::string::npos) << why;
}

// A file of the store that is damaged beyond the code is damage for the checkpoint, too.
TEST_F(StoredOutput, ACheckpointWhoseStoreHasLostTooMuchDoesNotPassAsVerified) {
  ok({"train", "tiny.toml", "--set", "run.steps=1", "--set", "run.threads_per_rank=1", "--set",
      "optim.warmup_steps=0", "--out", "run"});
  put("run", "run");
  for (const char* const folder : {"d0/chunks", "d1/chunks"}) std::filesystem::remove_all(folder);
  EXPECT_EQ(run({"checkpoint", "verify", "store://demo/run/checkpoints/step-000001"}).exit_code, 4);
}

TEST_F(StoredOutput, WhatCannotBeDoneIsRefusedWithARemedyBeforeTheWorkBegins) {
  const auto says = [](const Args& args, const std::vector<std::string>& words) {
    const std::string err = refused(args).err;
    for (const std::string& word : words) {
      EXPECT_NE(err.find(word), std::string::npos) << word << ": " << err;
    }
  };
  const std::string get = "trireme store get store://demo/x x";
  says({"data", "images", "store://demo/x"}, {get});
  says({"checkpoint", "import", "store://demo/x", "--out", "new"}, {get});
  says({"tokenizer", "import", "store://demo/x"}, {get});
  says({"scrub", "store://demo/x"}, {"trireme store scrub", "trireme checkpoint verify"});
  const Args train = {"tokenizer", "train", "text.txt", "--vocab-size", "280", "--out"};
  const auto with_out = [&](const std::string& out) {
    Args args = train;
    args.push_back(out);
    return args;
  };
  says(with_out("store://demo/text.txt"), {"exists", "trireme store rm store://demo/text.txt"});
  says(with_out("store://demo"), {"add a name"});
  says(with_out("store://nowhere/x"), {"nowhere"});
  says(with_out("store://demo/../x"), {".."});
  EXPECT_FALSE(std::filesystem::exists("outputs"));
}

// While it lives, the store can be opened and takes no chunk.
class NoChunks {
 public:
  NoChunks() {
    for (const std::string folder : {"d0", "d1", "d2"}) {
      std::filesystem::rename(folder + "/chunks", folder + "/away");
      std::ofstream(folder + "/chunks") << "no folder";
    }
  }
  ~NoChunks() {
    for (const std::string folder : {"d0", "d1", "d2"}) {
      std::filesystem::remove(folder + "/chunks");
      std::filesystem::rename(folder + "/away", folder + "/chunks");
    }
  }
  NoChunks(const NoChunks&) = delete;
  NoChunks& operator=(const NoChunks&) = delete;
};

// The result stays here if the store has lost too many folders when it is to be put there.
TEST_F(StoredOutput, AResultThatTheStoreCannotTakeStaysAndTheErrorSaysWhere) {
  const NoChunks broken;
  const CommandAnswer answer =
      run({"tokenizer", "train", "text.txt", "--vocab-size", "280", "--out", "store://demo/t/k"});
  EXPECT_NE(answer.exit_code, 0);
  EXPECT_EQ(answer.out, "");
  EXPECT_NE(answer.err.find("trireme store put outputs/demo/t/k store://demo/t/k"),
            std::string::npos)
      << answer.err;
  EXPECT_TRUE(std::filesystem::exists("outputs/demo/t/k"));
}

// What a former command has left is not stored under the name of this one, and does not keep it
// from its work.
TEST_F(StoredOutput, ARetryStoresOnlyWhatItHasWritten) {
  const auto prepare = [](const std::string& val_fraction) {
    return Args{"data",  "prepare",          "text.txt",       "--tokenizer", "byte",
                "--out", "store://demo/p/q", "--val-fraction", val_fraction};
  };
  ok({"train", "tiny.toml", "--set", "run.steps=1", "--set", "run.threads_per_rank=1", "--set",
      "optim.warmup_steps=0", "--out", "run"});
  const Args exported = {"checkpoint", "export",         "run", "--format", "hf",
                         "--out",      "store://demo/hf"};
  {
    const NoChunks broken;
    EXPECT_NE(run(prepare("0.2")).exit_code, 0);
    EXPECT_NE(run(exported).exit_code, 0);
  }
  ASSERT_TRUE(std::filesystem::exists("outputs/demo/p/q/val.tok"));
  std::ofstream("outputs/demo/hf/old") << "left";
  const CommandAnswer again = run(prepare("0"));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("outputs/demo/p/q of an earlier command"), std::string::npos)
      << again.err;
  ok(exported);
  const std::string list = ok({"store", "ls", "store://demo"});
  EXPECT_NE(list.find("p/q/train.tok"), std::string::npos) << list;
  EXPECT_EQ(list.find("val.tok"), std::string::npos) << list;
  EXPECT_NE(list.find("hf/config.json"), std::string::npos) << list;
  EXPECT_EQ(list.find("hf/old"), std::string::npos) << list;
  EXPECT_FALSE(std::filesystem::exists("outputs"));
}

// A command neither stores nor removes what the user has put where it would write.
TEST_F(StoredOutput, FilesOfTheUserStayAsTheyAre) {
  std::filesystem::create_directories("outputs/demo/p");
  std::ofstream("outputs/demo/p/own") << "mine";
  const Args prepare = {"data", "prepare", "text.txt",      "--tokenizer",
                        "byte", "--out",   "store://demo/p"};
  const std::string why = refused(prepare).err;
  EXPECT_NE(why.find("outputs/demo/p exists, and no command for store://demo/p has made it"),
            std::string::npos)
      << why;
  EXPECT_EQ(bytes_of("outputs/demo/p/own"), "mine");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator("outputs/demo"), {}), 1);
  std::filesystem::rename("outputs/demo/p", "outputs/demo/mine");
  ok(prepare);
  EXPECT_EQ(bytes_of("outputs/demo/mine/own"), "mine");
  EXPECT_EQ(ok({"store", "ls", "store://demo"}).find("own"), std::string::npos);
}

TEST_F(StoredOutput, ARefusedCommandLeavesNoFolder) {
  std::ofstream("chats.jsonl") << R"({"messages": [{"role": "user", "content": "hi"}]})";
  for (const Args& args : std::vector<Args>{
           {"tokenizer", "train", "absent.txt", "--vocab-size", "280", "--out", "store://demo/t/k"},
           {"data", "prepare", "absent.txt", "--tokenizer", "byte", "--out", "store://demo/t/k"},
           {"data", "prepare", "chats.jsonl", "--format", "chat", "--tokenizer", "byte", "--out",
            "store://demo/t/k"},
           {"checkpoint", "export", "absent", "--out", "store://demo/t/k"}}) {
    refused(args);
    EXPECT_FALSE(std::filesystem::exists("outputs")) << args[2];
  }
}

// The remedy for a folder that exists is one command, which removes all of it.
TEST_F(StoredOutput, AFolderThatExistsIsRemovedAsTheErrorSays) {
  const Args prepare = {"data", "prepare", "text.txt",      "--tokenizer",
                        "byte", "--out",   "store://demo/p"};
  ok(prepare);
  const std::string why = refused(prepare).err;
  EXPECT_NE(why.find("store://demo/p exists, a folder of 3 files"), std::string::npos) << why;
  EXPECT_NE(why.find("trireme store rm --recursive store://demo/p"), std::string::npos) << why;
  EXPECT_NE(refused({"store", "rm", "store://demo/p"}).err.find("--recursive store://demo/p"),
            std::string::npos);
  ok({"store", "rm", "--recursive", "store://demo/p"});
  ok(prepare);
}

// A folder of a store is read like one of this machine: in the order of the names, without hidden
// and empty files.
TEST_F(StoredOutput, AFolderOfAStoreIsReadLikeOneOfThisMachine) {
  std::filesystem::create_directories("texts/b/c");
  std::filesystem::create_directories("texts/.hidden");
  std::ofstream("texts/b.txt") << "after the folder b?";
  std::ofstream("texts/b/z.txt") << "in b";
  std::ofstream("texts/b/c/a.jsonl") << R"({"text": "a line of JSON"})"
                                     << "\n";
  std::ofstream("texts/b-c.txt") << "another";
  std::ofstream("texts/empty.txt");
  std::ofstream("texts/.hidden/no.txt") << "hidden";
  put("texts", "texts");
  const auto encoded = [](const std::string& folder) {
    return ok({"tokenizer", "encode", folder, "--tokenizer", "byte"});
  };
  EXPECT_EQ(encoded("store://demo/texts"), encoded("texts"));
  EXPECT_EQ(encoded("store://demo/texts/"), encoded("texts"));
  EXPECT_EQ(encoded("store://demo/texts/b"), encoded("texts/b"));
  expect_same({"data", "prepare"}, "texts", "store://demo/texts",
              {"--tokenizer", "byte", "--val-fraction", "0"}, "prepared");
  const Args encode = {"tokenizer", "encode", "store://demo/text", "--tokenizer", "byte"};
  EXPECT_NE(refused(encode).err.find("no such file"), std::string::npos);
  std::ofstream("texts/b/config.resolved.toml") << "";
  put("texts", "run");
  EXPECT_EQ(run({"tokenizer", "encode", "store://demo/run", "--tokenizer", "byte"}).exit_code, 4);
}

}  // namespace
}  // namespace trireme
