#include "jobs/megatron_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace trireme {
namespace {

// Writes out the copies of a text such as "Et|(tt|)*2,L".
class Copies {
 public:
  Copies(std::string_view text, size_t most) : left_(text), most_(most) {}

  // Returns nullopt if the parentheses and numbers are not sound, or the text becomes too long.
  std::optional<std::string> run() {
    std::string all;
    while (!left_.empty()) {
      std::string part;
      if (!one_part(part)) return std::nullopt;
      int64_t times = 1;
      if (left_.starts_with('*') && !number(times)) return std::nullopt;
      if (uint64_t(times) > most_ || all.size() + part.size() * size_t(times) > most_) {
        return std::nullopt;
      }
      for (int64_t i = 0; i < times; ++i) all += part;
    }
    return all;
  }

 private:
  // A letter, or what stands in parentheses, with the copies inside written out.
  bool one_part(std::string& part) {
    if (!left_.starts_with('(')) {
      part = left_.front();
      left_.remove_prefix(1);
      return part != ")" && part != "*";
    }
    const size_t end = left_.find(')');
    if (end == std::string_view::npos) return false;
    const std::string_view inside = left_.substr(1, end - 1);
    if (inside.find('(') != std::string_view::npos) return false;
    const std::optional<std::string> copies = Copies(inside, most_).run();
    left_.remove_prefix(end + 1);
    if (!copies || copies->empty()) return false;
    part = *copies;
    return true;
  }

  bool number(int64_t& value) {
    left_.remove_prefix(1);
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), value);
    if (error != std::errc{} || value < 0) return false;
    left_.remove_prefix(size_t(end - left_.data()));
    return true;
  }

  std::string_view left_;
  size_t most_;
};

bool add_letter(char letter, MegatronStage& stage) {
  switch (letter) {
    case 'E':
      stage.has_embedding = true;
      return true;
    case 't':
      ++stage.layers;
      return true;
    case 'm':
      ++stage.ahead;
      return true;
    case 'L':
      stage.has_loss = true;
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<std::vector<MegatronStage>> parse_megatron_stages(std::string_view text,
                                                                size_t most) {
  std::string plain(text);
  std::erase_if(plain, [](char letter) { return letter == ',' || letter == ' '; });
  const std::optional<std::string> letters = Copies(plain, most).run();
  if (!letters || std::count(letters->begin(), letters->end(), 'E') != 1 ||
      std::count(letters->begin(), letters->end(), 'L') != 1) {
    return std::nullopt;
  }
  if (letters->front() != 'E' || letters->back() != 'L') return std::nullopt;
  std::vector<MegatronStage> stages(1);
  for (const char letter : *letters) {
    if (letter == '|') {
      stages.emplace_back();
    } else if (!add_letter(letter, stages.back())) {
      return std::nullopt;
    }
  }
  return stages;
}

std::string megatron_stages_text(std::span<const int64_t> stage_layers, int64_t modules_ahead) {
  std::string text = "E";
  for (size_t stage = 0; stage < stage_layers.size(); ++stage) {
    if (stage > 0) text += "|";
    if (stage_layers[stage] > 0) text += fmt::format("t*{}", stage_layers[stage]);
  }
  return text + std::string(size_t(modules_ahead), 'm') + "L";
}

std::optional<std::vector<int64_t>> megatron_stages(const MegatronCut& cut) {
  constexpr int64_t kMostStages = int64_t{1} << 16, kMostLayers = int64_t{1} << 24;
  if (cut.pp < 1 || cut.chunks < 1 || cut.pp > kMostStages / cut.chunks) return std::nullopt;
  if (cut.layers < 1 || cut.layers > kMostLayers) return std::nullopt;
  // Layers of the ranks between those whose number is given.
  int64_t layers = cut.layers + (cut.counts_embedding ? 1 : 0) + (cut.counts_loss ? 1 : 0);
  int64_t ranks = cut.pp;
  for (const std::optional<int64_t>& given : {cut.first_rank, cut.last_rank}) {
    if (!given) continue;
    if (*given < 1 || *given > cut.layers) return std::nullopt;
    layers -= *given;
    --ranks;
  }
  if (ranks < 0 || layers < 0 || (ranks == 0) != (layers == 0)) return std::nullopt;
  if (ranks > 0 && layers % ranks != 0) return std::nullopt;
  std::vector<int64_t> of_rank(size_t(cut.pp), ranks > 0 ? layers / ranks : 0);
  if (cut.first_rank) of_rank.front() = *cut.first_rank;
  if (cut.last_rank) of_rank.back() = *cut.last_rank;
  std::vector<int64_t> stages;
  for (int64_t chunk = 0; chunk < cut.chunks; ++chunk) {
    for (const int64_t all : of_rank) {
      if (all % cut.chunks != 0) return std::nullopt;
      stages.push_back(all / cut.chunks);
    }
  }
  if (cut.counts_embedding) --stages.front();
  if (cut.counts_loss) --stages.back();
  return stages;
}

}  // namespace trireme
