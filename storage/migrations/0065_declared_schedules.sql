-- A schedule that a pipeline's file declares has the name of that file.
ALTER TABLE schedules ADD COLUMN declared_in TEXT CHECK (declared_in <> '');
