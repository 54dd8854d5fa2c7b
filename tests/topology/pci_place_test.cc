#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "topology/machine.h"

namespace colibri {
namespace {

std::string pu(int number, int gp_index) {
  const std::string set = number == 0 ? "0x00000001" : "0x00000002";
  return "<object type=\"PU\" os_index=\"" + std::to_string(number) + "\" cpuset=\"" + set +
         "\" complete_cpuset=\"" + set + "\" nodeset=\"" + set + "\" complete_nodeset=\"" + set +
         "\" gp_index=\"" + std::to_string(gp_index) + "\"/>";
}

std::string bridge(int bus, int gp_index, const std::string& inside) {
  const std::string number = std::to_string(bus);
  return "<object type=\"Bridge\" gp_index=\"" + std::to_string(gp_index) +
         "\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[" + number + "0-" + number +
         "f]\">" + inside + "</object>";
}

std::string gpu(const std::string& bus_id, int gp_index) {
  return "<object type=\"PCIDev\" os_index=\"" + std::to_string(gp_index) + "\" gp_index=\"" +
         std::to_string(gp_index) + "\" pci_busid=\"" + bus_id +
         "\" pci_type=\"0302 [10de:2330] [10de:16c1] a1\" pci_link_speed=\"31.5\"/>";
}

std::string package(int number, int first_gp, const std::string& more) {
  const std::string set = number == 0 ? "0x00000001" : "0x00000002";
  const std::string sets = " cpuset=\"" + set + "\" complete_cpuset=\"" + set + "\" nodeset=\"" +
                           set + "\" complete_nodeset=\"" + set + "\"";
  const std::string os = std::to_string(number);
  const auto gp = [first_gp](int add) {
    return " gp_index=\"" + std::to_string(first_gp + add) + "\"";
  };
  return "<object type=\"Package\" os_index=\"" + os + "\"" + sets + gp(0) +
         "><object type=\"NUMANode\" os_index=\"" + os + "\"" + sets + gp(1) +
         " local_memory=\"1000\"/><object type=\"Core\" os_index=\"" + os + "\"" + sets + gp(2) +
         ">" + pu(number, first_gp + 3) + "</object>" + more + "</object>";
}

// Two packages of one CPU and one NUMA node; a GPU at each, and a third at none of them.
std::string two_sockets() {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
         "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
         "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" "
         "cpuset=\"0x00000003\" complete_cpuset=\"0x00000003\" allowed_cpuset=\"0x00000003\" "
         "nodeset=\"0x00000003\" complete_nodeset=\"0x00000003\" allowed_nodeset=\"0x00000003\" "
         "gp_index=\"1\">" +
         package(0, 10, bridge(1, 20, gpu("0000:17:00.0", 21))) +
         package(1, 30, bridge(9, 40, gpu("0000:97:00.0", 41))) +
         bridge(5, 50, gpu("0000:57:00.0", 51)) + "</object></topology>\n";
}

std::vector<PciPlace> places(const std::vector<std::string>& bus_ids) {
  return places_of_pci_in_xml(two_sockets(), bus_ids);
}

TEST(PciPlaceTest, GpuIsNearTheSocketItHangsAt) {
  const auto found = places({"0000:97:00.0", "0000:17:00.0"});
  EXPECT_EQ(found[0], (PciPlace{.numa_node = 1, .cpus = {1}}));
  EXPECT_EQ(found[1], (PciPlace{.numa_node = 0, .cpus = {0}}));
}

TEST(PciPlaceTest, GpuAboveAllSocketsIsNearAllCpusAndNoNode) {
  EXPECT_EQ(places({"0000:57:00.0"})[0], (PciPlace{.numa_node = -1, .cpus = {0, 1}}));
}

TEST(PciPlaceTest, GpuThatHwlocDoesNotSeeHasNoPlace) {
  EXPECT_EQ(places({"0000:aa:00.0"})[0], PciPlace{});
  EXPECT_EQ(places({"no bus id"})[0], PciPlace{});
}

TEST(PciPlaceTest, TextThatIsNoXmlIsWrongInput) {
  const std::vector<std::string> none;
  EXPECT_ERROR(places_of_pci_in_xml("<topology", none), kInput, "not hwloc's XML");
}

TEST(PciPlaceTest, ThisMachineAnswersForEveryId) {
  const std::vector<std::string> ids = {"ffff:ff:1f.0", "0000:00:00.0"};
  EXPECT_EQ(places_of_pci(ids).size(), 2u);
}

}  // namespace
}  // namespace colibri
