#pragma once

#include <cstdint>

// Limits for the content of files. Every reader of untrusted bytes takes its limits from here, so
// that no file needs more time or memory than a file of its size should. All are far above real
// files.
namespace trireme::limits {

// Nesting of JSON, and of TOML including its dotted keys.
inline constexpr int kDepth = 64;

// ---- JSON
inline constexpr int64_t kJsonValues = int64_t{1} << 22;  // of one text; a tokenizer has 2^21
// Limit for one text whose entries are read one at a time.
inline constexpr int64_t kStreamedValues = int64_t{1} << 24;
inline constexpr int64_t kHeldValues = int64_t{1} << 20;       // of such an entry
inline constexpr int64_t kJsonTokenBytes = int64_t{16} << 20;  // of one string or number
// Members of one object whose order is kept, because each is compared with all before it.
inline constexpr int64_t kOrderedMembers = 1024;

// ---- configuration files
inline constexpr int64_t kConfigFileBytes = int64_t{1} << 20;
inline constexpr int64_t kConfigAssignments = 4096;
inline constexpr int64_t kConfigKeyBytes = 256;

// ---- small files of other programs: config.json, tokenizer_config.json
inline constexpr int64_t kSmallFileBytes = int64_t{16} << 20;
// A tokenizer is held in memory as a whole.
inline constexpr int64_t kTokenizerFileBytes = int64_t{256} << 20;

// ---- files of tensors
inline constexpr int64_t kTensors = int64_t{1} << 18;  // of one file
inline constexpr int64_t kIndexFileBytes = int64_t{256} << 20;
inline constexpr int64_t kIndexedTensors = int64_t{1} << 19;  // of an index of several files
inline constexpr int64_t kFilesOfModel = int64_t{1} << 14;
inline constexpr int64_t kGgufKeys = int64_t{1} << 16;      // of one file
inline constexpr int64_t kGgufElements = int64_t{1} << 21;  // of all arrays in one header
inline constexpr int64_t kSlicePairs = int64_t{1} << 25;    // pairs of slices that are compared

// ---- models
inline constexpr int64_t kLayers = int64_t{1} << 12;
inline constexpr int64_t kWidth = int64_t{1} << 24;  // of d_model, d_ff, heads and the like
inline constexpr int64_t kSeqLen = int64_t{1} << 24;
inline constexpr int64_t kVocabSize = int64_t{1} << 31;
inline constexpr int64_t kModelTensors = int64_t{1} << 19;  // parameters of all layers and experts
inline constexpr double kParameters = 1e15;        // elements; a thousand times the largest models
inline constexpr double kParametersOfRank = 5e11;  // elements with which one rank computes
inline constexpr int64_t kMicroBatchTokens = int64_t{1} << 24;  // of one rank

// ---- compressed text
// Decompressed bytes per compressed byte. Text reaches 10, repetitive logs 100.
inline constexpr int64_t kUnpackedRatio = 256;
// The ratio is checked only above this size.
inline constexpr int64_t kUnpackedFreeBytes = int64_t{64} << 20;
inline constexpr int kZstdWindowLog = 27;  // 128 MiB, the limit of zstd without --long

}  // namespace trireme::limits
