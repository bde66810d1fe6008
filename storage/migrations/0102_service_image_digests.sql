-- The images that a job's services began with, by the services' names, as image_digest has that of the job.
ALTER TABLE jobs ADD COLUMN service_image_digests TEXT NOT NULL DEFAULT '{}';
