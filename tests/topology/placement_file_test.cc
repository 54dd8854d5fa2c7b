#include "topology/placement_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/expect_error.h"
#include "tests/topology/files.h"
#include "tests/topology/shapes.h"

namespace colibri {
namespace {

// A valid file for shape_of(3, {false, true}) on two ranks; tests change one thing of it.
const char* const kValid = R"({
  "colibri_placement": 1,
  "model": {"family": "qwen3_moe", "fingerprint": "f00d"},
  "num_ranks": 2,
  "layers": [
    {"layer": 1, "experts": [[2],[1,0]]}
  ]
})";

ModelShape small_shape() { return shape_of(3, {false, true}); }

std::string valid_with(const std::string& old_text, const std::string& new_text) {
  std::string text = kValid;
  const size_t at = text.find(old_text);
  EXPECT_NE(at, std::string::npos) << old_text;
  return text.replace(at, old_text.size(), new_text);
}

Placement parse(const std::string& text) { return parse_placement(text, "p.json", small_shape()); }

TEST(PlacementFileTest, SlotsFollowTheOrderOfTheFile) {
  const Placement placement = parse(kValid);
  ASSERT_EQ(placement.slots_of(1, 0).size(), 1u);
  EXPECT_EQ(placement.slots_of(1, 0)[0], (SlotRef{1, 1}));
  EXPECT_EQ(placement.slots_of(1, 2)[0], (SlotRef{0, 0}));
}

TEST(PlacementFileTest, TextRoundTrips) {
  const ModelShape shape = shape_of(7, {false, true, true});
  const Placement placement = random_placement(shape, {.num_ranks = 4}, 3, 2);
  const std::string text = placement_text(placement, shape);
  EXPECT_EQ(parse_placement(text, "p", shape), placement);
  EXPECT_EQ(placement_text(parse_placement(text, "p", shape), shape), text);
}

TEST(PlacementFileTest, FileRoundTripsAndLeavesNoPartialFile) {
  const TempDir folder;
  const auto file = folder.path() / "placement.json";
  const ModelShape shape = small_shape();
  const Placement placement = round_robin_placement(shape, {.num_ranks = 3});
  write_placement(file, placement, shape);
  EXPECT_EQ(read_placement(file, shape), placement);
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".partial"));
}

TEST(PlacementFileTest, FileThatCannotBeReadOrWrittenIsNamed) {
  const TempDir folder;
  const auto file = folder.path() / "absent.json";
  EXPECT_ERROR(read_placement(file, small_shape()), kEnvironment, file.string());
  EXPECT_ERROR(read_placement(folder.path(), small_shape()), kEnvironment, "is not a file");
  const Placement placement = contiguous_placement(small_shape(), {.num_ranks = 1});
  EXPECT_ERROR(write_placement(file / "below" / "p.json", placement, small_shape()), kEnvironment,
               "cannot write");
}

TEST(PlacementFileTest, AnotherModelIsRefusedAndBothAreNamed) {
  EXPECT_ERROR(parse(valid_with("f00d", "beef")), kInput,
               "p.json: placement is for model qwen3_moe (beef), this model is qwen3_moe (f00d)");
  EXPECT_ERROR(parse(valid_with("qwen3_moe", "olmoe")), kInput, "for model olmoe");
}

TEST(PlacementFileTest, AnotherVersionIsRefused) {
  EXPECT_ERROR(parse(valid_with("\"colibri_placement\": 1", "\"colibri_placement\": 2")), kInput,
               "p.json: colibri_placement is 2, want a whole number in [1, 1]");
  EXPECT_ERROR(parse("{}"), kInput, "key 'colibri_placement' is missing");
}

TEST(PlacementFileTest, UnknownAndRepeatedKeysAreRefused) {
  EXPECT_ERROR(parse(valid_with("\"num_ranks\"", "\"ranks\"")), kInput, "unknown key 'ranks'");
  EXPECT_ERROR(parse(valid_with("\"layer\": 1", "\"layer\": 1, \"x\": 0")), kInput,
               "layers[0]: unknown key 'x'");
  EXPECT_ERROR(parse(valid_with("\"layer\": 1", "\"layer\": 1, \"layer\": 1")), kInput,
               "key 'layer' comes twice");
}

TEST(PlacementFileTest, WrongTypesAndNumbersAreNamed) {
  EXPECT_ERROR(parse(valid_with("[1,0]", "7")), kInput, "layer 1 rank 1 is not a list");
  EXPECT_ERROR(parse(valid_with("[1,0]", "[1,0.5]")), kInput, "expert is 0.5, want a whole number");
  EXPECT_ERROR(parse(valid_with("[1,0]", "[1,-1]")), kInput, "expert is -1, want");
  EXPECT_ERROR(parse(valid_with("[1,0]", "[1,3]")), kInput,
               "expert is 3, want a whole number in [0, 2]");
  EXPECT_ERROR(parse(valid_with("[1,0]", "[1,4294967296]")), kInput, "expert is 4294967296");
  EXPECT_ERROR(parse(valid_with("[1,0]", "[1,18446744073709551615]")), kInput,
               "want a whole number");
  EXPECT_ERROR(parse(valid_with("\"num_ranks\": 2", "\"num_ranks\": \"2\"")), kInput,
               "num_ranks is \"2\"");
  EXPECT_ERROR(parse(valid_with("\"num_ranks\": 2", "\"num_ranks\": 2000000000")), kInput,
               "want a whole number in [1, 65536]");
  EXPECT_ERROR(parse(valid_with("\"f00d\"", "5")), kInput, "fingerprint is 5, want a text");
  EXPECT_ERROR(parse(valid_with("{\"layer\": 1, \"experts\": [[2],[1,0]]}", "[]")), kInput,
               "layers[0]");
}

TEST(PlacementFileTest, WrongLayersAndRanksAreNamed) {
  EXPECT_ERROR(parse(valid_with("\"layer\": 1", "\"layer\": 0")), kInput, "layer 0 is dense");
  EXPECT_ERROR(parse(valid_with("\"layer\": 1", "\"layer\": 2")), kInput,
               "layer is 2, want a whole number in [0, 1]");
  EXPECT_ERROR(parse(valid_with("[[2],[1,0]]", "[[2,1,0]]")), kInput,
               "layers[0] lists 1 ranks, want 2");
  EXPECT_ERROR(parse(valid_with("[[2],[1,0]]", "[[2],[1]]")), kInput,
               "p.json: placement: layer 1 expert 0 has no slot");
  EXPECT_ERROR(parse(valid_with("[[2],[1,0]]", "[[2],[1,0,1]]")), kInput, "expert 1 twice");
  const std::string layer = "{\"layer\": 1, \"experts\": [[2],[1,0]]}";
  EXPECT_ERROR(parse(valid_with(layer, layer + "," + layer)), kInput,
               "2 layers, the model has 1 with experts");
  EXPECT_ERROR(parse_placement(valid_with(layer, layer + "," + layer), "p.json",
                               shape_of(3, {false, true, true})),
               kInput, "layers[1]: layer 1 comes twice");
}

TEST(PlacementFileTest, TextThatIsNotJsonIsRefused) {
  EXPECT_ERROR(parse(""), kInput, "p.json: not JSON");
  EXPECT_ERROR(parse("{\"colibri_placement\": 1"), kInput, "p.json: not JSON");
  EXPECT_ERROR(parse(std::string(5, '\0')), kInput, "p.json: not JSON");
  EXPECT_ERROR(parse("{\"model\": \"\xff\"}"), kInput, "p.json: not JSON");
  EXPECT_ERROR(parse("[1]"), kInput, "p.json is [1], want an object");
  EXPECT_ERROR(parse(std::string(100000, '[')), kInput, "nested deeper than");
}

TEST(PlacementFileTest, EveryCutOfAValidFileIsAnErrorNotACrash) {
  const std::string text = kValid;
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_ERROR(parse(text.substr(0, size)), kInput, "p.json");
  }
}

TEST(PlacementOptionTest, EachWordIsUnderstood) {
  EXPECT_EQ(parse_placement_option("contiguous").kind, PlacementKind::kContiguous);
  EXPECT_EQ(parse_placement_option("round-robin").kind, PlacementKind::kRoundRobin);
  EXPECT_EQ(parse_placement_option("round_robin").kind, PlacementKind::kRoundRobin);
  const PlacementChoice random = parse_placement_option("random:18446744073709551615");
  EXPECT_EQ(random.kind, PlacementKind::kRandom);
  EXPECT_EQ(random.seed, UINT64_MAX);
  EXPECT_EQ(parse_placement_option("plans/p.json").path, "plans/p.json");
  EXPECT_EQ(parse_placement_option("auto").kind, PlacementKind::kAuto);
}

TEST(PlacementOptionTest, AutoWantsAMachine) {
  EXPECT_ERROR(make_placement({.kind = PlacementKind::kAuto}, small_shape(), {.num_ranks = 2}),
               kInput, "colibri plan --out FILE");
}

TEST(PlacementFileTest, NotesOfAPlanAreNotReadBack) {
  const ModelShape shape = small_shape();
  const Placement placement = contiguous_placement(shape, {.num_ranks = 2});
  const std::string text = placement_text(placement, shape, R"({"advice": [{"step_us": {}}]})");
  EXPECT_NE(text.find("\"plan\": {\"advice\""), std::string::npos);
  EXPECT_TRUE(parse_placement(text, "p.json", shape) == placement);
  EXPECT_ERROR(parse_placement(placement_text(placement, shape, "3"), "p.json", shape), kInput,
               "p.json: plan is no object");
}

TEST(PlacementOptionTest, WrongWordsAreNamed) {
  EXPECT_ERROR(parse_placement_option(""), kInput, "--placement is empty");
  EXPECT_ERROR(parse_placement_option("random"), kInput, "has seed ''");
  EXPECT_ERROR(parse_placement_option("random:x"), kInput, "has seed 'x'");
  EXPECT_ERROR(parse_placement_option("random:-1"), kInput, "has seed '-1'");
  EXPECT_ERROR(parse_placement_option("random:7 "), kInput, "has seed '7 '");
  EXPECT_ERROR(parse_placement_option("random:99999999999999999999"), kInput, "has seed");
}

TEST(PlacementOptionTest, MakesWhatWasAskedFor) {
  const ModelShape shape = small_shape();
  const PlacementOptions options{.num_ranks = 2};
  EXPECT_EQ(make_placement({.kind = PlacementKind::kContiguous}, shape, options),
            contiguous_placement(shape, options));
  EXPECT_EQ(make_placement({.kind = PlacementKind::kRoundRobin}, shape, options),
            round_robin_placement(shape, options));
  EXPECT_EQ(make_placement({.kind = PlacementKind::kRandom, .seed = 5}, shape, options),
            random_placement(shape, options, 5));
}

TEST(PlacementOptionTest, FileIsHeldAgainstTheRun) {
  const TempDir folder;
  const auto file = write_file(folder, "for_two.json", kValid);
  const PlacementChoice choice = parse_placement_option(file.string());
  EXPECT_EQ(make_placement(choice, small_shape(), {.num_ranks = 2}), parse(kValid));
  EXPECT_ERROR(make_placement(choice, small_shape(), {.num_ranks = 3}), kInput,
               "placement is for 2 ranks, this run has 3");
  EXPECT_ERROR(make_placement(choice, small_shape(), {.num_ranks = 2, .coordinator_experts = 1}),
               kInput, "--coordinator-experts 1 has no meaning with a placement file");
  EXPECT_ERROR(make_placement(choice, small_shape(), {.num_ranks = 2, .capacity_slots = {1, 1}}),
               kEnvironment, "rank 1 is given 2 experts");
}

}  // namespace
}  // namespace colibri
