#include "topology/cluster_file.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "topology/builtin_machines.h"
#include "topology/machine_picture.h"

namespace colibri {
namespace {

std::vector<std::string> way(const Cluster& cluster, const std::string& from,
                             const std::string& to) {
  std::vector<int> parts;
  for (const std::string& name : {from, to}) {
    for (size_t i = 0; i < cluster.parts.size(); ++i) {
      if (cluster.parts[i].name == name) parts.push_back(static_cast<int>(i));
    }
  }
  const ClusterRoutes routes(cluster, parts);
  std::vector<std::string> kinds;
  for (const LinkUse& use : routes.between(0, 1)) {
    kinds.push_back(cluster.links[static_cast<size_t>(use.link)].kind);
  }
  return kinds;
}

using Kinds = std::vector<std::string>;

TEST(ClusterFile, EveryMachineInsideIsReadAndComesBackFromItsText) {
  for (const std::string& name : cluster_names()) {
    const Cluster cluster = find_cluster(name);
    EXPECT_EQ(cluster.name, name);
    EXPECT_EQ(parse_cluster(cluster_text(cluster, "a test"), "text"), cluster) << name;
  }
  EXPECT_EQ(cluster_names().size(), 10u);
}

TEST(ClusterFile, GpusOfAnNvSwitchTalkOverIt) {
  EXPECT_EQ(way(find_cluster("8xh200"), "node0.gpu0", "node0.gpu7"), (Kinds{"nvlink4", "nvlink4"}));
}

TEST(ClusterFile, WithoutNvlinkTheWayGoesOverSwitchesAndSockets) {
  EXPECT_EQ(way(find_cluster("8xa100-pcie"), "node0.gpu0", "node0.gpu1"),
            (Kinds{"pcie4-x16", "pcie4-x16"}));
  EXPECT_EQ(way(find_cluster("8xa100-pcie"), "node0.gpu0", "node0.gpu7"),
            (Kinds{"pcie4-x16", "pcie4-x16", "upi-skl", "pcie4-x16", "pcie4-x16"}));
}

TEST(ClusterFile, BetweenNodesTheWayGoesOverANicAtEachEnd) {
  EXPECT_EQ(way(find_cluster("4x8xh200-400g"), "node0.gpu3", "node2.gpu5"),
            (Kinds{"pcie5-x16", "pcie5-x16", "ib-400g", "ib-400g", "pcie5-x16", "pcie5-x16"}));
}

TEST(ClusterFile, ARackOfNvlinkNeedsNoNetwork) {
  EXPECT_EQ(way(find_cluster("gb200-nvl72"), "node0.gpu0", "node17.gpu3"),
            (Kinds{"nvlink5", "nvlink5"}));
}

TEST(ClusterFile, WrongFilesAreNamedWithTheirLine) {
  EXPECT_ERROR(find_cluster("9xh900"), kInput, "known are");
  EXPECT_ERROR(parse_cluster("colibri_machine = 2\n", "m"), kUnsupported, "version 2");
  EXPECT_ERROR(parse_cluster("colibri_machine = ", "m"), kInput, "m line 1 is no TOML");
  const std::string head = "colibri_machine = 1\nname = \"x\"\n[[node]]\n";
  EXPECT_ERROR(parse_cluster(head + "cpu = \"cpu-server\"\n", "m"), kInput,
               "node.cores is missing");
  const std::string node = head + "cpu = \"cpu-server\"\ncores = 4\nmemory_gb = 8\n";
  EXPECT_EQ(parse_cluster(node, "m").parts.size(), 1u);
  EXPECT_ERROR(parse_cluster(node + "gpu_s = 4\n", "m"), kInput, "line 7: node.gpu_s is not known");
  EXPECT_ERROR(parse_cluster(node + "packages = 2\n", "m"), kInput, "package_link");
  EXPECT_ERROR(parse_cluster(node + "gpus = 2\ngpu = \"h2000\"\npcie = \"pcie5-x16\"\n", "m"),
               kInput, "'h2000' is not in the catalogue");
  EXPECT_ERROR(parse_cluster(node + "count = 5000\n", "m"), kInput, "want 1 to 4096");
}

TEST(ClusterFile, AFewLinesCannotAskForMoreThanThereIsMemory) {
  const std::string node =
      "colibri_machine = 1\nname = \"x\"\n[[node]]\ncpu = \"cpu-server\"\ncores = 1\n"
      "memory_gb = 1\npackage_link = \"upi-spr\"\npackages = 64\nnuma_per_package = 64\n";
  EXPECT_ERROR(parse_cluster(node, "m"), kInput, "8386560 links, want at most 1048576");
  EXPECT_ERROR(parse_cluster(node + "count = 16\n", "m"), kInput,
               "65552 parts, want at most 65536");
}

TEST(ClusterFile, AdaptersMayHangOnAnotherLinkThanGpus) {
  EXPECT_EQ(way(find_cluster("gb200-nvl72"), "node0.gpu0", "node0.nic0"),
            (Kinds{"nvlink-c2c", "pcie5-x16"}));
}

TEST(ClusterFile, ANumberWithoutItsSourceIsRefused) {
  EXPECT_ERROR(parse_catalogue("[link.x]\nnominal_gbps = 3\n", "c"), kInput,
               "c line 2: link.x.nominal_gbps is a number, want {value");
}

TEST(ClusterFile, CutAndChangedBytesGiveAMachineOrAnError) {
  for (const BuiltinMachine& machine : builtin_machines()) {
    const std::string text(machine.text);
    for (size_t at = 0; at < text.size(); at += 23) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ 0x15);
      for (const std::string& tried : {text.substr(0, at), changed}) {
        try {
          parse_cluster(tried, "m");
        } catch (const Error& error) {
          EXPECT_NE(error.kind(), ErrorKind::kInternal) << error.what();
        }
      }
    }
  }
}

// A CPU and the text after it.
std::string one_cpu_and(const std::string& more) {
  return "colibri_machine = 1\nname = \"m\"\n[[part]]\nkind = \"cpu\"\nname = \"c\"\nnode = 0\n"
         "device = \"cpu-server\"\ncores = 1048576\nmemory_bytes = 1\n" +
         more;
}

TEST(ClusterFile, NamesWithControlCharactersComeBackFromTheText) {
  Cluster cluster = parse_cluster(one_cpu_and(""), "m");
  cluster.parts[0].name = "a\x01\n\"\\\x7f";
  EXPECT_EQ(parse_cluster(cluster_text(cluster, "made up"), "m").parts, cluster.parts);
}

TEST(ClusterFile, MoreNodesThanANumberCanNameAreRefused) {
  std::string text = "colibri_machine = 1\nname = \"m\"\n";
  for (int i = 0; i < 2; ++i) {
    text += "[[node]]\ncount = 2049\ncpu = \"cpu-laptop\"\ncores = 1\nmemory_gb = 1\n";
  }
  EXPECT_ERROR(parse_cluster(text, "m"), kInput, "m: 4098 nodes, want at most 4096");
}

TEST(ClusterFile, AChainOfSwitchesThatNoMachineHasIsRefused) {
  std::string text;
  for (int i = 0; i < 33; ++i) {
    const std::string name = "s" + std::to_string(i);
    const std::string above = i == 0 ? "c" : "s" + std::to_string(i - 1);
    text += "[[part]]\nkind = \"pcie-switch\"\nname = \"" + name +
            "\"\nnode = 0\n[[joint]]\na = \"" + above + "\"\nb = \"" + name +
            "\"\nkind = \"pcie5-x16\"\n";
  }
  EXPECT_ERROR(parse_cluster(one_cpu_and(text), "m"), kInput,
               "switch s32 hangs below 32 others, want fewer");
}

TEST(ClusterFile, RanksAreSpreadByCoresHoweverManyThereAre) {
  std::string text;
  for (int i = 0; i < 3; ++i) {
    const std::string name = "d" + std::to_string(i);
    text += "[[part]]\nkind = \"cpu\"\nname = \"" + name +
            "\"\nnode = 0\ndevice = \"cpu-server\"\ncores = 524288\nmemory_bytes = 1\n"
            "[[joint]]\na = \"c\"\nb = \"" +
            name + "\"\nkind = \"numa\"\n";
  }
  // c has two fifths of the cores.
  EXPECT_EQ(default_rank_parts(parse_cluster(one_cpu_and(text), "m"), 5, true),
            (std::vector<int>{0, 0, 1, 2, 3}));
}

TEST(MachinePicture, NodesThatAreAlikeAreToldOnce) {
  const Cluster cluster = find_cluster("18x8xh800-400g");
  const std::string text = cluster_tree(cluster);
  EXPECT_NE(text.find("node 0 (and 17 more like it)"), std::string::npos) << text;
  EXPECT_EQ(text.find("node1."), std::string::npos);
  const std::string svg = cluster_svg(cluster);
  EXPECT_NE(svg.find("node 0, one of 18 alike"), std::string::npos);
  EXPECT_EQ(svg.find("node1."), std::string::npos);
}

TEST(MachinePicture, EachRateIsOnItsLinkAndInTheLegend) {
  const std::string svg = cluster_svg(find_cluster("8xa100-pcie"));
  EXPECT_NE(svg.find("node0.cpu0 - node0.cpu1: upi-skl, 10 GB/s"), std::string::npos);
  EXPECT_NE(svg.find(">24 each<"), std::string::npos);
  EXPECT_NE(svg.find(">pcie4-x16 24 GB/s<"), std::string::npos);
  EXPECT_NE(svg.find("node0.gpu7, a100, 80.0 GB"), std::string::npos);
}

TEST(MachinePicture, WhatIsNotDrawnIsTold) {
  const std::string words = "links between CPUs that are not neighbours are not drawn";
  EXPECT_NE(cluster_svg(find_cluster("two-socket-cpu")).find(words), std::string::npos);
  EXPECT_EQ(cluster_svg(find_cluster("8xh200")).find(words), std::string::npos);
}

TEST(MachinePicture, ASwitchBehindASwitchStandsBelowItInTheTree) {
  Cluster cluster = find_cluster("laptop");
  for (const char* name : {"node0.outer", "node0.inner"}) {
    const auto last = static_cast<int>(cluster.parts.size()) - 1;
    cluster.parts.push_back({.kind = PartKind::kPcieSwitch, .name = name});
    cluster.links.push_back({last, last + 1, "pcie4-x16", 24, 1});
  }
  EXPECT_NE(cluster_tree(cluster).find("\n    node0.outer  pcie4-x16 24 GB/s"
                                       "\n      node0.inner  pcie4-x16 24 GB/s"),
            std::string::npos);
}

}  // namespace
}  // namespace colibri
