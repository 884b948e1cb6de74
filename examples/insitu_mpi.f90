! SPDX-License-Identifier: Apache-2.0
!
! insitu_mpi.f90 - a network learns from a simulation while it runs, on the processes of the
! simulation.
!
!   mpif90 yoke.f90 insitu_mpi.f90 -o insitu $(pkg-config --cflags --libs yoke-mpi)
!   mpirun -n 2 ./insitu
!
! The simulation: two phases, -1 and 1, part from each other, u' = D (u_xx + u_yy) + R (u - u^3), by
! explicit steps of a five-point stencil; each process has some columns, and exchanges borders. The
! network, a surrogate, is to tell how a cell changes in two steps from the 5 x 5 cells around it.
! After every second step each process picks cells of its own, and all train on the cells of all.
! Nothing is written to a disk in between.
program insitu
    use mpi_f08
    use yoke
    implicit none
    integer, parameter :: N = 64, STEPS = 1000, PATCH = 5, PICKS = 256
    real(c_float), parameter :: D = 0.05, R = 0.1
    ! One JSON text: a network of one hidden layer, whose loss is the mean squared error.
    character(*), parameter :: network = '{"yoke": 1, "nodes": [' // &
        '{"op": "input", "name": "around", "type": "f32", "shape": [25]},' // &
        '{"op": "dense", "name": "first", "inputs": ["around"], "units": 64},' // &
        '{"op": "tanh", "name": "tanh1", "inputs": ["first"]},' // &
        '{"op": "dense", "name": "second", "inputs": ["tanh1"], "units": 1},' // &
        '{"op": "target", "name": "change", "type": "f32", "shape": [1]},' // &
        '{"op": "mean_squared_error", "name": "error", "inputs": ["second", "change"]}],' // &
        '"outputs": {"change": "second"}, "loss": "error"}'
    type(c_ptr) :: context, comm, team, graph, trainer
    type(yoke_trainer_options) :: options
    type(yoke_result) :: result
    integer :: rank, ranks, columns, provided, step, all
    real(c_float), allocatable :: u(:, :), before(:, :)
    real(c_float), allocatable, target :: around(:, :), change(:), own_around(:, :), own_change(:)
    real :: loss, standing_still ! sums over a hundred steps

    call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    columns = N / ranks
    all = PICKS * ranks
    allocate (u(N, -1:columns + 2), before(N, -1:columns + 2)) ! two columns of each neighbour
    allocate (own_around(PATCH**2, PICKS), own_change(PICKS), around(PATCH**2, all), change(all))

    call check(yoke_context_create(context))
    call check(yoke_mpi_comm_from_fortran(MPI_COMM_WORLD%MPI_VAL, comm))
    call check(yoke_team_create(context, team, comm=comm))
    call check(yoke_graph_from_json(network, graph))
    options%optimizer = yoke_adam(0.005_c_float)
    options%batch = all
    call check(yoke_trainer_create(team, graph, options, trainer))

    call start
    do step = 1, STEPS
        if (mod(step, 100) == 1) then
            loss = 0
            standing_still = 0
        end if
        if (mod(step, 2) == 1) then
            call exchange
            before = u
        end if
        call advance
        if (mod(step, 2) == 1) cycle
        call pick
        call check(yoke_trainer_step(trainer, all, [yoke_feed_f32('around', around), &
                                                    yoke_feed_f32('change', change)], result))
        loss = loss + real(result%loss)
        standing_still = standing_still + sum(change**2) / all
        if (rank == 0 .and. mod(step, 100) == 0) &
            print '(a, i4, a, f5.1, a)', 'step ', step, ': the surrogate leaves ', &
                100 * loss / standing_still, ' % of the changes unexplained'
    end do
    if (.not. loss < standing_still / 4) error stop 'the surrogate has not learned'

    call yoke_trainer_destroy(trainer)
    call yoke_graph_destroy(graph)
    call yoke_team_destroy(team)
    call yoke_comm_destroy(comm)
    call yoke_context_destroy(context)
    call MPI_Finalize

contains

    subroutine check(status)
        integer(c_int), intent(in) :: status

        if (status == YOKE_OK) return
        print '(a)', yoke_last_error()
        call MPI_Abort(MPI_COMM_WORLD, 1)
    end subroutine

    ! Waves of several lengths.
    subroutine start
        integer :: i, j, x

        do j = 1, columns
            x = rank * columns + j
            u(:, j) = [(0.3 * sin(0.1 * real(7 * i + 3 * x)) * sin(0.1 * real(5 * x - 2 * i)), i = 1, N)]
        end do
    end subroutine

    ! Two columns to each neighbour, around the edges of the world. Each row's ends meet, too.
    subroutine exchange
        integer :: left, right

        left = modulo(rank - 1, ranks)
        right = modulo(rank + 1, ranks)
        call MPI_Sendrecv(u(1, columns - 1), 2 * N, MPI_REAL, right, 0, u(1, -1), 2 * N, MPI_REAL, left, 0, &
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        call MPI_Sendrecv(u(1, 1), 2 * N, MPI_REAL, left, 1, u(1, columns + 1), 2 * N, MPI_REAL, right, 1, &
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    end subroutine

    subroutine advance
        real(c_float) :: spread(N, columns), c(N, columns)

        call exchange
        c = u(:, 1:columns)
        spread = cshift(c, 1, 1) + cshift(c, -1, 1) + u(:, 0:columns - 1) + u(:, 2:columns + 1) - 4 * c
        u(:, 1:columns) = c + D * spread + R * (c - c**3)
    end subroutine

    ! Cells of this process, what was around them and how they have changed; then those of all.
    subroutine pick
        real :: place(2, PICKS)
        integer :: i, j, k, row_of, row(PATCH)

        call random_number(place)
        do k = 1, PICKS
            i = 1 + int(place(1, k) * N)
            j = 1 + int(place(2, k) * columns)
            row = [(1 + modulo(i - 1 + row_of, N), row_of = -2, 2)]
            own_around(:, k) = reshape(before(row, j - 2:j + 2), [PATCH**2])
            own_change(k) = 10 * (u(i, j) - before(i, j)) ! about as large as the inputs
        end do
        call MPI_Allgather(own_around, size(own_around), MPI_REAL, around, size(own_around), MPI_REAL, &
                           MPI_COMM_WORLD)
        call MPI_Allgather(own_change, PICKS, MPI_REAL, change, PICKS, MPI_REAL, MPI_COMM_WORLD)
    end subroutine
end program
