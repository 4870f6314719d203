#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/chat.h"
#include "data/text_reader.h"
#include "data/token_file.h"
#include "device/thread_team.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Which text is held out for validation.
enum class HeldOut {
  Auto,       // Documents for lines, JSON lines and 100 or more files, else Tail
  Documents,  // whole documents, spread over the input (val_split.h)
  Tail,       // the last tokens
};

struct PrepareOptions {
  TextInput input;
  std::string out;  // folder for train.tok, val.tok and tokenizer.json; created if missing
  double val_fraction = 0.05;  // 0: no val.tok
  // Only for the format Chat, whose token files have a loss mask; see ChatTemplate::parse.
  std::string chat_template = std::string(ChatTemplate::kUsual);
  HeldOut held_out = HeldOut::Auto;
  uint64_t seed = 1337;                    // for the choice of documents
  int64_t block_bytes = int64_t{8} << 20;  // bytes of text that are encoded at a time
  // Called after each block with the bytes of text read and all bytes (-1: unknown).
  std::function<void(int64_t, int64_t)> progress;
  // Called after each block. If it returns true the preparation stops; the next call resumes it.
  std::function<bool()> stop;
};

struct PrepareReport {
  TokenFileHeader train;
  TokenFileHeader val;             // num_tokens is 0 if nothing is held out
  std::vector<std::string> notes;  // notes about the text, one sentence each
  bool was_resumed = false;
  int64_t train_counted = 0;  // tokens that the loss counts: all, unless there is a loss mask
  int64_t val_counted = 0;
};

// Encodes text into token files, on all threads of a team and in bounded memory. <|endoftext|>
// follows every document. Progress is saved every 64 MiB of text: after a failure the same call
// resumes from there if the files have not changed (but not from standard input).
Result<PrepareReport> prepare(const Tokenizer& tokenizer, const PrepareOptions& options,
                              ThreadTeam& team);

}  // namespace trireme
