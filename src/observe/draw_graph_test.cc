#include "observe/draw_graph.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "base/xml.h"
#include "observe/graph_layout.h"

namespace trireme {
namespace {

size_t num_found(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

ModelSpec pictured_model(ModelFamily family) {
  ModelConfig config;
  config.family = family;
  config.layers = 2;
  config.d_model = 64;
  config.heads = 8;
  config.kv_heads = family == ModelFamily::Gpt2 ? 8 : 4;
  config.vocab_size = 131;
  config.seq_len = 32;
  return *resolve_model(config, 0);
}

StageShape pictured_layout(const ModelSpec& model) {
  StageShape layout{.tp = 2, .cp = 2};
  layout.sequence_parallel = true;
  layout.ep = model.has_experts() ? 2 : 1;
  return layout;
}

TEST(DrawGraph, EveryOpAndEveryRedistributionIsDrawn) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    const ModelSpec model = pictured_model(family);
    const StageShape layout = pictured_layout(model);
    for (const UnitPasses& unit : unit_passes(model, layout)) {
      for (const PassView& view : views_of(unit)) {
        const std::string svg = draw_graph(view, model, layout);
        size_t num_redistributions = 0, num_reads = 1;
        for (const Op& op : view.graph.ops) {
          num_reads += op.inputs.size();
          if (op.kind == OpKind::Redistribute) {
            ++num_redistributions;
            EXPECT_NE(svg.find(fmt::format("redistribute over {}<", name_of(op.axis))), svg.npos);
            continue;
          }
          const std::string box = fmt::format(">{} {}<", name_of(op.kind), op.name);
          EXPECT_EQ(num_found(svg, box), 1u) << box;
        }
        EXPECT_EQ(num_found(svg, "class=\"op moves"), num_redistributions);
        EXPECT_EQ(num_found(svg, "<path class=\"edge"), num_reads) << unit.stated.unit;
        for (const Value& value : view.graph.values) {
          EXPECT_EQ(num_found(svg, fmt::format("\">{}<", xml_escaped(value.name))), 1u)
              << value.name;
        }
      }
    }
  }
}

TEST(DrawGraph, PicturesAndPagesNeedNothingElse) {
  const ModelSpec model = pictured_model(ModelFamily::Moe);
  const StageShape layout = pictured_layout(model);
  const std::vector<UnitPasses> units = unit_passes(model, layout);
  const std::string svg = draw_units(units, model, layout);
  const std::string page = graph_page(units, model, layout, "moe");
  for (const std::string& text : {svg, page}) {
    for (const char* outside : {"src=", "href", "url(", "@import", "<script", "https://"}) {
      EXPECT_EQ(text.find(outside), text.npos) << outside;
    }
    EXPECT_EQ(num_found(text, "http://"), num_found(text, "xmlns=\"http://www.w3.org/2000/svg\""));
    EXPECT_EQ(num_found(text, "<svg"), num_found(text, "</svg>"));
    EXPECT_EQ(num_found(text, "<text"), num_found(text, "</text>"));
    EXPECT_EQ(num_found(text, "<g "), num_found(text, "</g>"));
    for (const UnitPasses& unit : units) EXPECT_NE(text.find(title_of(unit)), text.npos);
  }
}

TEST(DrawGraph, NamesCannotEndAnElement) {
  const ModelSpec model = pictured_model(ModelFamily::Llama);
  const std::vector<ValuePlacement> none;
  Graph graph;
  graph.values = {{"<x>", {Axis::Token, Axis::Width}}, {"a&\"b\"", {Axis::Token, Axis::Width}}};
  graph.ops = {{.kind = OpKind::Norm, .name = "</text>", .inputs = {0}, .outputs = {1}}};
  graph.input = 0;
  graph.output = 1;
  const std::string svg = draw_graph({"stated", "", graph, none}, model, {});
  EXPECT_NE(svg.find(">&lt;x&gt;<"), svg.npos);
  EXPECT_NE(svg.find(">a&amp;&quot;b&quot;<"), svg.npos);
  EXPECT_NE(svg.find(">norm &lt;/text&gt;<"), svg.npos);
  const std::string page = graph_page({}, model, {}, "<script>");
  EXPECT_EQ(page.find("<script"), page.npos);
}

// Boxes stand apart, edges lead from the bottom of one box to the top of a later one and cross
// none.
TEST(GraphLayout, BoxesStandApartAndEdgesGoAroundThem) {
  std::mt19937 random(7);
  const auto below = [&](int limit) { return int(random() % unsigned(limit)); };
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    GraphLayout layout;
    const int num_boxes = 1 + below(24);
    for (int box = 0; box < num_boxes; ++box) {
      layout.boxes.push_back({20.0 + below(200), 20.0 + below(100)});
      for (int i = 0; box > 0 && i < 1 + below(3); ++i) {
        const int from = below(box);
        layout.edges.push_back(
            {from, layout.boxes[size_t(from)].width / 2, box, layout.boxes.back().width / 3});
      }
    }
    lay_out(layout);
    for (size_t i = 0; i < layout.boxes.size(); ++i) {
      const LayoutBox& a = layout.boxes[i];
      EXPECT_GE(a.x, 0.0);
      EXPECT_LE(a.x + a.width, layout.width + 0.01);
      EXPECT_LE(a.y + a.height, layout.height + 0.01);
      for (size_t j = 0; j < i; ++j) {
        const LayoutBox& b = layout.boxes[j];
        const bool overlap = a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height &&
                             b.y < a.y + a.height;
        EXPECT_FALSE(overlap) << i << " and " << j;
      }
    }
    for (const LayoutEdge& edge : layout.edges) {
      const LayoutBox& from = layout.boxes[size_t(edge.from)];
      const LayoutBox& to = layout.boxes[size_t(edge.to)];
      EXPECT_DOUBLE_EQ(edge.points.front().x, from.x + edge.from_offset);
      EXPECT_DOUBLE_EQ(edge.points.front().y, from.y + from.height);
      EXPECT_DOUBLE_EQ(edge.points.back().x, to.x + edge.to_offset);
      EXPECT_DOUBLE_EQ(edge.points.back().y, to.y);
      for (size_t i = 0; i + 1 < edge.points.size(); i += 2) {
        const LayoutPoint top = edge.points[i], bottom = edge.points[i + 1];
        EXPECT_EQ(top.x, bottom.x);
        EXPECT_LE(top.y, bottom.y);
        for (size_t box = 0; box < layout.boxes.size(); ++box) {
          const LayoutBox& other = layout.boxes[box];
          const bool crosses = top.x > other.x && top.x < other.x + other.width &&
                               top.y < other.y + other.height && bottom.y > other.y;
          EXPECT_FALSE(crosses) << "edge " << edge.from << " to " << edge.to << " crosses " << box;
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
