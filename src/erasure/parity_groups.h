#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// Hosts that protect each other: any num_parity of them may be lost.
struct ParityGroup {
  std::vector<int> hosts;
  int num_parity = 0;
  int num_data() const { return int(hosts.size()) - num_parity; }
};

// Deals hosts to groups of num_data + num_parity hosts. The hosts of a failure domain are dealt one
// after the other, so each group has as few of them as possible; a host with the domain "" is one
// by itself. Hosts with neighbouring numbers come into different groups, too, because they often
// share a rack. Hosts that are left over enlarge the groups, which then need less memory. If there
// are fewer hosts, they form one group, which loses nothing as long as one host and all but
// num_parity of them are left.
std::vector<ParityGroup> parity_groups(std::span<const std::string> domains,  // [host]
                                       int num_data, int num_parity);

// A failure domain whose loss is more than a group can bear.
struct TooLargeDomain {
  std::string name;
  int num_hosts = 0;  // of the domain in this group
  int num_parity = 0;
};
std::optional<TooLargeDomain> too_large_domain(std::span<const std::string> domains,
                                               std::span<const ParityGroup> groups);

// How the blocks of a group of n = k + m members lie. Every member has one block, cut into k pieces
// of the same length. The group has n stripes. Stripe s has its m parity pieces, the rows of the
// code, on the members s .. s + m - 1 (mod n), and one piece of the block of each other member. So
// every member stores m parity pieces beside its block: 1 + m / k times its bytes.
class Stripes {
 public:
  Stripes(int num_data, int num_parity) : k_(num_data), m_(num_parity) {}
  int num_members() const { return k_ + m_; }
  // The stripe in which a piece of the member's block lies, as data block `piece` of the code.
  int of_piece(int member, int piece) const { return wrap(member - m_ - piece); }
  int member_of_piece(int stripe, int piece) const { return wrap(stripe + m_ + piece); }
  // The stripe whose row a member stores.
  int of_row(int member, int row) const { return wrap(member - row); }
  int member_of_row(int stripe, int row) const { return wrap(stripe + row); }

 private:
  int wrap(int number) const { return (number % num_members() + num_members()) % num_members(); }
  int k_, m_;
};

// The length of all pieces of a group whose longest block has so many bytes.
int64_t piece_bytes(int64_t longest_block_bytes, int num_data);

// A piece of a member: piece `number` of its block, or a parity piece of row `number`.
struct GroupPiece {
  bool is_parity = false;
  int member = 0;
  int number = 0;
};

// Adds coefficient * source to target, in GF(2^8).
struct PieceProduct {
  GroupPiece source;
  GroupPiece target;
  uint8_t coefficient = 1;
  bool is_first = false;  // the target is overwritten instead
};

// Makes all parity pieces. In each turn every member sends a piece to one other, so all links are
// in use.
std::vector<PieceProduct> encode_products(int num_data, int num_parity);

// What a member has lost.
struct MemberLoss {
  bool block = false;
  std::vector<bool> rows;  // [row]; num_parity of them
};

// Makes the pieces of all lost blocks from k intact pieces of their stripes. It is an error if a
// stripe has lost more than num_parity pieces.
Result<std::vector<PieceProduct>> rebuild_products(int num_data, int num_parity,
                                                   const std::vector<MemberLoss>& losses);

}  // namespace trireme
