! SPDX-License-Identifier: Apache-2.0
!
! yoke.f90 - yoke for Fortran 2018: what a simulation needs to train a network beside itself.
!
! It is installed as source, as modules are of one compiler: compile it with the program.
!
!   gfortran yoke.f90 program.f90 $(pkg-config --cflags --libs yoke)
!
! Names and meanings are those of C (yoke(7)). A network is a text of JSON (yoke-files(7)). Objects
! are of type(c_ptr). Functions return a status, 0 if all is well; yoke_last_error() says what is not.
module yoke
    use, intrinsic :: iso_c_binding
    implicit none
    private
    public :: c_ptr, c_null_ptr, c_associated, c_float, c_double, c_int32_t, c_int64_t

    integer(c_int), parameter, public :: YOKE_OK = 0
    integer(c_int), parameter, public :: YOKE_F32 = 0, YOKE_I32 = 1

    type, bind(c), public :: yoke_optimizer
        integer(c_int) :: kind = 0
        real(c_float) :: learning_rate = 0, momentum = 0, beta1 = 0, beta2 = 0, epsilon = 0, &
                         weight_decay = 0
        logical(c_bool) :: nesterov = .false.
        integer(c_int32_t) :: reserved(8) = 0
    end type

    ! Texts and lists are C's, and NULL unless set by c_loc().
    type, bind(c), public :: yoke_trainer_options
        type(yoke_optimizer) :: optimizer
        integer(c_int64_t) :: batch = 0
        integer(c_int32_t) :: seed = 0, accumulate = 0
        type(c_ptr) :: shares = c_null_ptr
        integer(c_int) :: reproducible = 0
        logical(c_bool) :: strict = .false., local_batch_norm = .false.
        integer(c_int) :: level = 0
        type(c_ptr) :: schedule = c_null_ptr, groups = c_null_ptr
        integer(c_size_t) :: group_count = 0
        real(c_float) :: clip_norm = 0, clip_value = 0
        type(c_ptr) :: wisdom = c_null_ptr
        integer(c_int64_t) :: bucket_bytes = 0
        integer(c_int) :: recompute = 0, state = 0
        logical(c_bool) :: no_overlap = .false.
        integer(c_int) :: core_groups = 0
        type(c_ptr) :: precision = c_null_ptr
        integer(c_int64_t) :: granule = 0
        real(c_float) :: average = 0
        integer(c_int64_t) :: recheck = 0
        integer(c_int) :: shard = 0
        type(c_ptr) :: shard_by = c_null_ptr
        integer(c_int) :: wire = 0
        integer(c_int64_t) :: recompute_bytes = 0
        logical(c_bool) :: own_weights = .false.
        integer(c_int32_t) :: stages = 0 ! -1: as many as make a step shortest; -2: if need be
        real(c_float) :: loss_scale = 0
    end type

    type, bind(c), public :: yoke_result
        real(c_double) :: loss = 0, count = 0, metrics(8) = 0
        integer(c_size_t) :: metric_count = 0
        integer(c_int64_t) :: samples = 0, step = 0
        real(c_double) :: seconds = 0
    end type

    ! Made by yoke_feed_f32 and yoke_feed_i32 of an array with the attribute target.
    type, public :: yoke_feed
        character(:), allocatable :: name
        integer(c_int) :: type = YOKE_F32
        type(c_ptr) :: values = c_null_ptr
        integer(c_int64_t) :: count = 0
    end type

    type, bind(c) :: c_feed
        type(c_ptr) :: name = c_null_ptr
        integer(c_int) :: type = 0
        type(c_ptr) :: data = c_null_ptr
        integer(c_int64_t) :: count = 0, length = 0, reserved(2) = 0
    end type

    type(c_feed), parameter :: a_feed = c_feed()
    integer(c_size_t), parameter, public :: yoke_feed_size = c_sizeof(a_feed) ! for tests

    public :: yoke_last_error, yoke_context_create, yoke_context_destroy, yoke_team_create, &
              yoke_team_destroy, yoke_graph_from_json, yoke_graph_destroy, yoke_sgd, yoke_adam, &
              yoke_adamw, yoke_feed_f32, yoke_feed_i32, yoke_trainer_create, yoke_trainer_destroy, &
              yoke_trainer_step, yoke_trainer_predict, yoke_trainer_read, yoke_trainer_write, &
              yoke_trainer_save, yoke_comm_destroy, &
              yoke_mpi_comm_from_fortran

    interface yoke_feed_f32
        procedure feed_f32_1, feed_f32_2
    end interface

    interface
        type(yoke_optimizer) function yoke_sgd(learning_rate, momentum) bind(c)
            import
            real(c_float), value :: learning_rate, momentum
        end function
        type(yoke_optimizer) function yoke_adam(learning_rate) bind(c)
            import
            real(c_float), value :: learning_rate
        end function
        type(yoke_optimizer) function yoke_adamw(learning_rate, weight_decay) bind(c)
            import
            real(c_float), value :: learning_rate, weight_decay
        end function
        subroutine yoke_context_destroy(context) bind(c)
            import
            type(c_ptr), value :: context
        end subroutine
        subroutine yoke_team_destroy(team) bind(c)
            import
            type(c_ptr), value :: team
        end subroutine
        subroutine yoke_graph_destroy(graph) bind(c)
            import
            type(c_ptr), value :: graph
        end subroutine
        subroutine yoke_trainer_destroy(trainer) bind(c)
            import
            type(c_ptr), value :: trainer
        end subroutine
        subroutine yoke_comm_destroy(comm) bind(c)
            import
            type(c_ptr), value :: comm
        end subroutine
        ! Of libyoke-mpi. `mpi` is a communicator's handle: its MPI_VAL in mpi_f08.
        integer(c_int) function yoke_mpi_comm_from_fortran(mpi, comm) bind(c)
            import
            integer(c_int), value :: mpi
            type(c_ptr) :: comm
        end function
    end interface

    interface
        type(c_ptr) function last_error() bind(c, name='yoke_last_error')
            import
        end function
        integer(c_size_t) function strlen(text) bind(c)
            import
            type(c_ptr), value :: text
        end function
        integer(c_int) function context_create(options, size, context) &
            bind(c, name='yoke_context_create_sized')
            import
            type(c_ptr), value :: options
            integer(c_size_t), value :: size
            type(c_ptr) :: context
        end function
        integer(c_int) function team_create(context, selector, options, size, team) &
            bind(c, name='yoke_team_create_sized')
            import
            type(c_ptr), value :: context, selector
            type(c_ptr) :: options
            integer(c_size_t), value :: size
            type(c_ptr) :: team
        end function
        integer(c_int) function graph_from_json(text, length, graph) &
            bind(c, name='yoke_graph_from_json')
            import
            character(kind=c_char), intent(in) :: text(*)
            integer(c_size_t), value :: length
            type(c_ptr) :: graph
        end function
        integer(c_int) function trainer_create(team, graph, options, size, trainer) &
            bind(c, name='yoke_trainer_create_sized')
            import
            type(c_ptr), value :: team, graph
            type(yoke_trainer_options), intent(in) :: options
            integer(c_size_t), value :: size
            type(c_ptr) :: trainer
        end function
        integer(c_int) function trainer_step(trainer, n, feeds, feed_count, result, size) &
            bind(c, name='yoke_trainer_step_sized')
            import
            type(c_ptr), value :: trainer
            integer(c_int64_t), value :: n
            type(c_feed), intent(in) :: feeds(*)
            integer(c_size_t), value :: feed_count, size
            type(c_ptr), value :: result
        end function
        integer(c_int) function trainer_predict(trainer, output, n, feeds, feed_count, values, count) &
            bind(c, name='yoke_trainer_predict')
            import
            type(c_ptr), value :: trainer
            character(kind=c_char), intent(in) :: output(*)
            integer(c_int64_t), value :: n, count
            type(c_feed), intent(in) :: feeds(*)
            integer(c_size_t), value :: feed_count
            real(c_float) :: values(*)
        end function
        integer(c_int) function trainer_read(trainer, name, values, count) &
            bind(c, name='yoke_trainer_read')
            import
            type(c_ptr), value :: trainer
            character(kind=c_char), intent(in) :: name(*)
            real(c_float) :: values(*)
            integer(c_int64_t), value :: count
        end function
        integer(c_int) function trainer_write(trainer, name, values, count) &
            bind(c, name='yoke_trainer_write')
            import
            type(c_ptr), value :: trainer
            character(kind=c_char), intent(in) :: name(*)
            real(c_float), intent(in) :: values(*)
            integer(c_int64_t), value :: count
        end function
        integer(c_int) function trainer_save(trainer, path) bind(c, name='yoke_trainer_save')
            import
            type(c_ptr), value :: trainer
            character(kind=c_char), intent(in) :: path(*)
        end function
    end interface

contains

    ! What was wrong with the last call that failed.
    function yoke_last_error() result(text)
        character(:), allocatable :: text
        character(kind=c_char), pointer :: letters(:)
        type(c_ptr) :: from
        integer :: i

        from = last_error()
        call c_f_pointer(from, letters, [strlen(from)])
        allocate (character(size(letters)) :: text)
        do i = 1, size(letters)
            text(i:i) = letters(i)
        end do
    end function

    integer(c_int) function yoke_context_create(context) result(status)
        type(c_ptr), intent(out) :: context

        status = context_create(c_null_ptr, 0_c_size_t, context)
    end function

    ! Without `selector`, $YOKE_DEVICES or all devices; without `comm`, this process is alone.
    integer(c_int) function yoke_team_create(context, team, selector, comm) result(status)
        type(c_ptr), intent(in) :: context
        type(c_ptr), intent(out) :: team
        character(*), intent(in), optional :: selector
        type(c_ptr), intent(in), optional :: comm
        character(:), allocatable, target :: text
        type(c_ptr) :: with, devices

        with = c_null_ptr
        devices = c_null_ptr
        if (present(comm)) with = comm
        if (present(selector)) then
            text = selector // c_null_char
            devices = c_loc(text)
        end if
        status = team_create(context, devices, with, c_sizeof(with), team)
    end function

    integer(c_int) function yoke_graph_from_json(text, graph) result(status)
        character(*), intent(in) :: text
        type(c_ptr), intent(out) :: graph

        status = graph_from_json(text, len(text, c_size_t), graph)
    end function

    type(yoke_feed) function feed_f32_1(name, values) result(feed)
        character(*), intent(in) :: name
        real(c_float), intent(in), target, contiguous :: values(:)

        feed = yoke_feed(name, YOKE_F32, c_loc(values), size(values, kind=c_int64_t))
    end function

    ! Samples are columns, as memory has them.
    type(yoke_feed) function feed_f32_2(name, values) result(feed)
        character(*), intent(in) :: name
        real(c_float), intent(in), target, contiguous :: values(:, :)

        feed = yoke_feed(name, YOKE_F32, c_loc(values), size(values, kind=c_int64_t))
    end function

    type(yoke_feed) function yoke_feed_i32(name, values) result(feed)
        character(*), intent(in) :: name
        integer(c_int32_t), intent(in), target, contiguous :: values(:)

        feed = yoke_feed(name, YOKE_I32, c_loc(values), size(values, kind=c_int64_t))
    end function

    integer(c_int) function yoke_trainer_create(team, graph, options, trainer) result(status)
        type(c_ptr), intent(in) :: team, graph
        type(yoke_trainer_options), intent(in) :: options
        type(c_ptr), intent(out) :: trainer

        status = trainer_create(team, graph, options, c_sizeof(options), trainer)
    end function

    ! The names as C reads them, one after the other, and the feeds that point to them.
    subroutine to_c(feeds, names, list)
        type(yoke_feed), intent(in) :: feeds(:)
        character(:), allocatable, target, intent(out) :: names
        type(c_feed), allocatable, intent(out) :: list(:)
        integer :: i, at

        names = ''
        do i = 1, size(feeds)
            names = names // feeds(i)%name // c_null_char
        end do
        allocate (list(size(feeds)))
        at = 1
        do i = 1, size(feeds)
            list(i)%name = c_loc(names(at:at))
            list(i)%type = feeds(i)%type
            list(i)%data = feeds(i)%values
            list(i)%count = feeds(i)%count
            at = at + len(feeds(i)%name) + 1
        end do
    end subroutine

    ! With `result` it waits for the step.
    integer(c_int) function yoke_trainer_step(trainer, n, feeds, result) result(status)
        type(c_ptr), intent(in) :: trainer
        integer, intent(in) :: n
        type(yoke_feed), intent(in) :: feeds(:)
        type(yoke_result), intent(out), optional, target :: result
        character(:), allocatable, target :: names
        type(c_feed), allocatable :: list(:)
        type(yoke_result) :: any
        type(c_ptr) :: where_to

        where_to = c_null_ptr
        if (present(result)) where_to = c_loc(result)
        call to_c(feeds, names, list)
        status = trainer_step(trainer, int(n, c_int64_t), list, size(list, kind=c_size_t), where_to, &
                              c_sizeof(any))
    end function

    integer(c_int) function yoke_trainer_predict(trainer, output, n, feeds, values) result(status)
        type(c_ptr), intent(in) :: trainer
        character(*), intent(in) :: output
        integer, intent(in) :: n
        type(yoke_feed), intent(in) :: feeds(:)
        real(c_float), intent(out), contiguous :: values(:)
        character(:), allocatable, target :: names
        type(c_feed), allocatable :: list(:)

        call to_c(feeds, names, list)
        status = trainer_predict(trainer, output // c_null_char, int(n, c_int64_t), list, &
                                 size(list, kind=c_size_t), values, size(values, kind=c_int64_t))
    end function

    integer(c_int) function yoke_trainer_read(trainer, name, values) result(status)
        type(c_ptr), intent(in) :: trainer
        character(*), intent(in) :: name
        real(c_float), intent(out), contiguous :: values(:)

        status = trainer_read(trainer, name // c_null_char, values, size(values, kind=c_int64_t))
    end function

    integer(c_int) function yoke_trainer_write(trainer, name, values) result(status)
        type(c_ptr), intent(in) :: trainer
        character(*), intent(in) :: name
        real(c_float), intent(in), contiguous :: values(:)

        status = trainer_write(trainer, name // c_null_char, values, size(values, kind=c_int64_t))
    end function

    integer(c_int) function yoke_trainer_save(trainer, path) result(status)
        type(c_ptr), intent(in) :: trainer
        character(*), intent(in) :: path

        status = trainer_save(trainer, path // c_null_char)
    end function
end module
