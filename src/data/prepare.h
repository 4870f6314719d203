#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/text_reader.h"
#include "data/token_file.h"
#include "device/thread_team.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// What becomes validation text.
enum class HeldOut {
  Auto,       // Documents for lines, JSON lines and 100 files or more, else Tail
  Documents,  // whole documents, spread over the input (val_split.h)
  Tail,       // the last tokens
};

struct PrepareOptions {
  TextInput input;
  std::string out;  // folder for train.tok, val.tok and tokenizer.json; made where it is missing
  double val_fraction = 0.05;  // 0: no val.tok
  HeldOut held_out = HeldOut::Auto;
  uint64_t seed = 1337;                    // of the choice of documents
  int64_t block_bytes = int64_t{8} << 20;  // of text that are encoded at a time
  // Called after each block with bytes of text that were read, and all of them (-1: not known).
  std::function<void(int64_t, int64_t)> progress;
  // Called after each block; true stops the preparation, which goes on when called again.
  std::function<bool()> stop;
};

struct PrepareReport {
  TokenFileHeader train;
  TokenFileHeader val;             // num_tokens is 0 without validation
  std::vector<std::string> notes;  // about the text, a sentence each
  bool was_resumed = false;
};

// Encodes text into token files, on all threads of a team and in bounded memory. Every document is
// followed by <|endoftext|>. What was encoded is kept every 64 MiB of text: the same call after a
// failure, with files that have not changed, goes on from there (not for standard input).
Result<PrepareReport> prepare(const Tokenizer& tokenizer, const PrepareOptions& options,
                              ThreadTeam& team);

}  // namespace trireme
