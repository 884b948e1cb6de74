# SPDX-License-Identifier: Apache-2.0
#
# launcher.sh - the environment in which mpirun starts ranks of the tests: more ranks than
# processors, not bound to them, as root too. To be read by a script; $work is a folder of its own.

# Ranks of Open MPI share memory in files of $work, which no other launch may use at the same time: their
# names hold 16 bits of a hash, and who finds the name of another job writes into its memory (docs/drivers.md).
own_memory() {
    OMPI_MCA_btl_sm_backing_directory=$work OMPI_MCA_btl_vader_backing_directory=$work
    OMPI_MCA_osc_sm_backing_directory=$work
    export OMPI_MCA_btl_sm_backing_directory OMPI_MCA_btl_vader_backing_directory OMPI_MCA_osc_sm_backing_directory
}
own_memory

OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_btl_base_warn_component_unused=0 OMPI_MCA_mpi_yield_when_idle=1
# On one host memory is shared. TCP beside it only complains of interfaces, in Open MPI 5; the others
# look for network cards in each process, and wait a second when it ends (docs/drivers.md).
OMPI_MCA_pml=ob1 OMPI_MCA_btl=^tcp,ofi,openib,uct,usnic
# Sockets of Open MPI stand in TMPDIR, where the path may not be long.
OMPI_MCA_orte_tmpdir_base=${TMPDIR:-/tmp}
# Open MPI 5 reads these by other names, and wants a home, where it writes nothing.
PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
HOME=$work
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe
export OMPI_MCA_hwloc_base_binding_policy OMPI_MCA_btl_base_warn_component_unused
export OMPI_MCA_mpi_yield_when_idle OMPI_MCA_btl OMPI_MCA_pml OMPI_MCA_orte_tmpdir_base
export PRTE_MCA_rmaps_default_mapping_policy PRTE_MCA_hwloc_default_binding_policy HOME
